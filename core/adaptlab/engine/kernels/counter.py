"""Counter-based generator: a draw depends on its counters alone.

Each draw is SplitMix64's finaliser (Steele, Lea, Flood 2014) over the counters. Torch has no
unsigned 64-bit arithmetic, so int64 wraps around and right shifts are masked.
"""

import hashlib
import math

import torch
from torch import Tensor

from adaptlab.engine.kernels.fused_draws import fused_draw
from adaptlab.engine.tensors import Float, Int

_GOLDEN = -0x61C8864680B583EB  # 0x9E3779B97F4A7C15 as a signed 64-bit number
_FIRST = -0x40A7B892E31B1A47  # 0xBF58476D1CE4E5B9
_SECOND = -0x6B2FB644ECCEEE15  # 0x94D049BB133111EB


def _shifted(value: Tensor, bits: int) -> Tensor:
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def mixed(value: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
    """Scramble int64 values bijectively, elementwise."""
    value = value + _GOLDEN
    value = (value ^ _shifted(value, 30)) * _FIRST
    value = (value ^ _shifted(value, 27)) * _SECOND
    return value ^ _shifted(value, 31)


def random_bits(*counters: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """Draw uniform int63 values, one per combination of counters.

    The counters are broadcast.
    """
    fused = fused_draw(counters)
    if fused is not None:
        return fused
    value = torch.zeros((), dtype=torch.int64, device=counters[0].device)
    for counter in counters:
        value = mixed(value ^ counter)
    return _shifted(value, 1)


def constant(number: int, device: torch.device) -> Int[Tensor, ""]:
    """Return a number as a counter, without a copy that waits for a GPU."""
    return torch.full((), number, dtype=torch.int64, device=device)


def uniform(*counters: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Draw uniform float64 values in the open interval (0, 1)."""
    return (_shifted(random_bits(*counters), 10).double() + 0.5) * 2.0**-53


def normal(*counters: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Draw standard normal float64 values (Box-Muller)."""
    zero = torch.zeros((), dtype=torch.int64, device=counters[0].device)
    radius = (-2.0 * uniform(*counters, zero).log()).sqrt()
    return radius * (2.0 * math.pi * uniform(*counters, zero + 1)).cos()


def stream(name: str) -> int:
    """Return a stable number below 2⁶² for the name of a stream of draws."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 2
