"""What compiled kernels compute, against torch in float64."""

from collections.abc import Sequence

import torch
from torch import Tensor

DIGITS = {torch.float32: 2.0**-21, torch.bfloat16: 2.0**-8}
"""The relative error that one result may have: a few roundings of it, or half a step."""


def near(found: Tensor, expected: Tensor, scale: float = 1.0) -> bool:
    """Return True if a result matches float64 to its dtype's digits.

    `scale` says how much larger what it is a difference or sum of may be.
    """
    allowed = DIGITS[found.dtype] * scale * expected.abs().max()
    return bool(((found.double() - expected).abs() <= allowed).all())


def drawn(*shapes: tuple[int, ...], dtype: torch.dtype) -> list[Tensor]:
    """Return tensors of normal numbers, the same ones every time."""
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(*shape, generator=generator).to(dtype) for shape in shapes]


def asking(given: Sequence[Tensor]) -> list[Tensor]:
    """Return copies that gradients are asked of."""
    return [each.clone().requires_grad_() for each in given]
