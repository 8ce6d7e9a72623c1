"""Gradient checkpointing: blocks are computed again for their gradients.

A training step then keeps the input of every block, and what one block computes, instead of what
all of them compute (Chen et al. 2016, with one segment per block). Nothing in a block is drawn at
random but dropout, whose masks come from counters, so both computations give the same values.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.utils.checkpoint import checkpoint

T = TypeVar("T")


def block(compute: Callable[..., T], *inputs: Any, again: bool, **named: Any) -> T:
    """Return what a block computes of its inputs.

    With `again`, only the inputs and what `compute` refers to are kept for the backward pass.
    """
    if not again or not torch.is_grad_enabled():
        return compute(*inputs, **named)
    output: T = checkpoint(compute, *inputs, use_reentrant=False, preserve_rng_state=False, **named)
    return output
