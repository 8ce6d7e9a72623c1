"""Random draws by one kernel on a GPU.

Without it a draw is thirteen kernels per counter, and the masks of dropout are three quarters of
all kernels of a step. Torch compiles the kernel when it is first used, in a fraction of a second.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

_MOST = 8
"""Tensors that such a kernel reads at most."""
_MIX = """
    value = (value ^ static_cast<unsigned long long>({counter})) + 0x9E3779B97F4A7C15ULL;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
    value = value ^ (value >> 31);"""
_KERNEL = """template <typename T> T draw_of_{count}({parameters}) {{
    unsigned long long value = 0;{mixes}
    return static_cast<T>(value >> 1);
}}"""


def fused_draw(counters: tuple[Tensor, ...]) -> Tensor | None:
    """Return the draws of counters, which are broadcast.

    None if there is no such kernel: on a CPU, for too many counters, or if it cannot be compiled.
    """
    device = counters[0].device
    if len(counters) > _MOST or not draws_are_fused(device):
        return None
    return _kernel(len(counters))(*counters)


@cache
def _kernel(count: int) -> Callable[..., Tensor]:
    names = [f"c{number}" for number in range(count)]
    code = _KERNEL.format(
        count=count,
        parameters=", ".join(f"T {name}" for name in names),
        mixes="".join(_MIX.format(counter=name) for name in names),
    )
    return torch.cuda.jiterator._create_jit_fn(code)  # pyright: ignore[reportPrivateUsage]


@cache
def draws_are_fused(device: torch.device) -> bool:
    """Return True if a kernel can be compiled for a device."""
    if device.type != "cuda":
        return False
    try:
        _kernel(1)(torch.zeros(1, dtype=torch.int64, device=device))
    except RuntimeError:  # no compiler in this build of torch
        return False
    return True
