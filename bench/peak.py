"""Peak speed of matrix products, and the share that a training reaches."""

import time
from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

from adaptlab.engine.kernels.compiled import are_compiled, compile_kernels, forget_kernels

SIZE = 2048
ROUNDS = 40
"""Enough that a busy neighbour does not disturb every round."""


def peak(dtype: torch.dtype, device: str = "cpu", size: int = SIZE) -> float:
    """Return the best speed of matrix products, in operations per second."""
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        torch.mm(left, right)
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begin)
    return 2 * size**3 / best


def operations(step: Callable[[], None]) -> int:
    """Return the operations of a step's matrix products.

    torch computes them all, because those of compiled kernels are not seen.
    """
    compiled = are_compiled(torch.float32, torch.device("cpu"))
    forget_kernels()
    with FlopCounterMode(display=False) as counter:
        step()
    if compiled:
        compile_kernels()
    return counter.get_total_flops()
