"""How fast this machine multiplies large matrices, and what share of that a training reaches."""

import time
from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

SIZE = 2048
ROUNDS = 7


def peak(dtype: torch.dtype) -> float:
    """The best of some products of square matrices, in floating-point operations a second."""
    left, right = (torch.randn(SIZE, SIZE).to(dtype) for _ in range(2))
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        torch.mm(left, right)
        best = min(best, time.perf_counter() - begin)
    return 2 * SIZE**3 / best


def operations(step: Callable[[], None]) -> int:
    """The floating-point operations of the matrix products of a step."""
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()
