"""Intruder dimensions of constructed matrices, and of jobs' adaptations."""

import pytest
import torch
from torch import Tensor

from adaptlab.errors import NotMergeable
from adaptlab.families.minigpt import MiniGPT
from adaptlab.methods.lora import Lora
from adaptlab.methods.soft_prompt import SoftPrompt
from adaptlab.theory.intruders import intruder_count, intruders_by_site
from adaptlab.theory.observation import FrozenBase

SIZE, DIRECTIONS, SIMILARITY = 32, 10, 0.5


def orthogonal(number: int) -> Tensor:
    generator = torch.Generator().manual_seed(number)
    return torch.linalg.qr(torch.randn(SIZE, SIZE, dtype=torch.float64, generator=generator)).Q


def matrix(left: Tensor, right: Tensor) -> Tensor:
    """A matrix with these singular vectors and the singular values 32 to 1."""
    return left @ torch.diag(torch.arange(SIZE, 0, -1, dtype=torch.float64)) @ right.T


def mixtures(count: int) -> Tensor:
    """Orthogonal sums of all coordinates alike, with signs, [SIZE, count]."""
    signs = torch.ones(1, 1, dtype=torch.float64)
    while len(signs) < SIZE:
        signs = torch.cat([torch.cat([signs, signs], 1), torch.cat([signs, -signs], 1)])
    return signs[:, :count] / SIZE**0.5


@pytest.mark.parametrize("count", [0, 1, 3, 10])
def test_large_changes_in_mixed_directions_are_intruders(count: int) -> None:
    """Each has the cosine 1 / √32 with every direction of the base."""
    left, right = orthogonal(1), orthogonal(2)
    change = 1000 * left @ mixtures(count) @ orthogonal(3)[:, :count].T
    tuned = matrix(left, right) + change
    assert intruder_count(matrix(left, right), tuned, DIRECTIONS, SIMILARITY) == count


def test_no_more_than_the_looked_at_directions_are_counted() -> None:
    left, right = orthogonal(1), orthogonal(2)
    tuned = matrix(left, right) + 1000 * left @ mixtures(12) @ orthogonal(3)[:, :12].T
    assert intruder_count(matrix(left, right), tuned, DIRECTIONS, SIMILARITY) == DIRECTIONS
    assert intruder_count(matrix(left, right), tuned, 4, SIMILARITY) == 4


@pytest.mark.parametrize("similarity", [0.17, 0.18])
def test_similarity_is_the_border(similarity: float) -> None:
    """1 / √32 is 0.1768."""
    left, right = orthogonal(1), orthogonal(2)
    tuned = matrix(left, right) + 1e6 * left @ mixtures(1) @ orthogonal(3)[:, :1].T
    assert intruder_count(matrix(left, right), tuned, 1, similarity) == (similarity > 0.1768)


def test_directions_of_the_base_that_grow_or_change_places_are_none() -> None:
    left, right = orthogonal(1), orthogonal(2)
    grown = matrix(left, right) + 1000 * left[:, 20:24] @ right[:, 20:24].T
    small = matrix(left, right) + 1e-3 * orthogonal(4)
    assert intruder_count(matrix(left, right), grown, DIRECTIONS, SIMILARITY) == 0
    assert intruder_count(matrix(left, right), small, DIRECTIONS, SIMILARITY) == 0


def test_only_weights_have_intruders() -> None:
    family = MiniGPT().resolved(vocabulary=11, context=8)
    shape = family.shape()
    draw = torch.Generator().manual_seed(0)

    def drawn(shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
        return {
            name: torch.randn(one, dtype=torch.float64, generator=draw)
            for name, one in shapes.items()
        }

    weights = drawn({name: one.shape for name, one in shape.tensors.items()})
    base = FrozenBase(family, {name: one.unsqueeze(0) for name, one in weights.items()})
    lora = Lora(rank=2)
    trained = drawn({name: one.shape for name, one in lora.tensors(shape).items()})
    large = {name: 100 * one for name, one in trained.items()}
    found = intruders_by_site(lora, base, large, DIRECTIONS, SIMILARITY)
    assert found
    assert all(0 <= count <= DIRECTIONS for count in found.values())
    still = {name: 0 * one for name, one in trained.items()}
    assert set(intruders_by_site(lora, base, still, DIRECTIONS, SIMILARITY).values()) == {0}
    prompt = SoftPrompt(length=2)
    tensors = drawn({name: one.shape for name, one in prompt.tensors(shape).items()})
    with pytest.raises(NotMergeable, match="adds positions"):
        intruders_by_site(prompt, base, tensors, DIRECTIONS, SIMILARITY)
