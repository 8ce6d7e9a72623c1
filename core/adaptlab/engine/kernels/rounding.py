"""TF32: a GPU's matrix products of float32 numbers, with rounded factors.

Factors keep eight bits of exponent and ten of mantissa; sums are in float32. Torch has one switch
for products and one for convolutions, which is on unless it is turned off. Both hold for the whole
process, so every computation that trains sets them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from adaptlab.errors import InvalidSpec, Problem

AMPERE = (8, 0)
"""The compute capability of the first GPUs that have TF32."""


@contextmanager
def rounded_products(*, rounded: bool) -> Iterator[None]:
    """Round the factors of matrix products on a GPU to TF32, or do not."""
    products: Any = torch.backends.cuda.matmul  # torch has no types for its switches
    convolutions: Any = torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    products.allow_tf32 = convolutions.allow_tf32 = rounded
    try:
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


def check_rounds(device: torch.device) -> None:
    """Check that a device can round to TF32.

    Raises:
        InvalidSpec: it cannot, so the precision would be that of float32.
    """
    if device.type == "cuda" and torch.cuda.get_device_capability(device) >= AMPERE:
        return
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else "a CPU"
    detail = (
        "The precision tf32 needs an NVIDIA GPU of the Ampere generation or later. This worker "
        f"trains on {card}, where it would be the same as float32. Submit the job to a queue of "
        "workers with such a GPU, or use float32."
    )
    raise InvalidSpec(Problem("/training/precision", "no_tf32", detail))
