"""A counter-based generator: draw j of sample k of seed s never depends on what ran before.

Each draw is SplitMix64's finaliser (Steele, Lea, Flood 2014) over the counters. Torch has no
unsigned 64-bit arithmetic, so int64 wraps around and right shifts are masked.
"""

import hashlib
import math

import torch
from torch import Tensor

_GOLDEN = -0x61C8864680B583EB  # 0x9E3779B97F4A7C15 as a signed 64-bit number
_FIRST = -0x40A7B892E31B1A47  # 0xBF58476D1CE4E5B9
_SECOND = -0x6B2FB644ECCEEE15  # 0x94D049BB133111EB


def _shifted(value: Tensor, bits: int) -> Tensor:
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def mixed(value: Tensor) -> Tensor:
    """A bijective scrambling of int64 values, elementwise."""
    value = value + _GOLDEN
    value = (value ^ _shifted(value, 30)) * _FIRST
    value = (value ^ _shifted(value, 27)) * _SECOND
    return value ^ _shifted(value, 31)


def random_bits(*counters: Tensor) -> Tensor:
    """Uniform non-negative int63 values, one for each combination of broadcast int64 counters."""
    value = torch.zeros((), dtype=torch.int64, device=counters[0].device)
    for counter in counters:
        value = mixed(value ^ counter)
    return _shifted(value, 1)


def uniform(*counters: Tensor) -> Tensor:
    """Uniform float64 values in the open interval (0, 1)."""
    return (_shifted(random_bits(*counters), 10).double() + 0.5) * 2.0**-53


def normal(*counters: Tensor) -> Tensor:
    """Standard normal float64 values (Box-Muller)."""
    zero = torch.zeros((), dtype=torch.int64, device=counters[0].device)
    radius = (-2.0 * uniform(*counters, zero).log()).sqrt()
    return radius * (2.0 * math.pi * uniform(*counters, zero + 1)).cos()


def stream(name: str) -> int:
    """A stable number below 2**62 for a name, to keep streams of draws apart."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 2
