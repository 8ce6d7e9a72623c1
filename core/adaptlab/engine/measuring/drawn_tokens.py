"""Draws of tokens that depend on seed, item, sample and position alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from adaptlab.engine.kernels.counter import constant, stream, uniform
from adaptlab.engine.tensors import Float, Int
from adaptlab.plugins.answer_decoding import AnswerDecoding

Pick = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Returns tokens [A, C] of logits [A, C, V], given the answers' columns and the tokens' places in
answers, both broadcast with [A, C]. There may be further dimensions before the last one."""

STREAM = stream("decoding")


def likeliest(logits: Tensor, _column: Tensor, _place: Tensor) -> Tensor:
    """Return the likeliest tokens."""
    return logits.argmax(-1)


@dataclass(frozen=True)
class Draws:
    """Draws of tokens for answers to the items of one pass.

    Column c is sample `c % samples` of item `c // samples`.

    Attributes:
        decoding: temperature and `top_p`.
        seeds: the seed of each row, [A].
        items: the places of the items in their split, [B].
        samples: the samples of an item.
        first: the number of the first sample.
    """

    decoding: AnswerDecoding
    seeds: Int[Tensor, "A"]
    items: Int[Tensor, "B"]
    samples: int
    first: int = 0

    def of_sample(self, number: int) -> Pick:
        """Return the draws of one sample, whose column c is that of item c."""
        return replace(self, samples=1, first=number).pick

    def pick(
        self,
        logits: Float[Tensor, "A C *M V"],
        column: Int[Tensor, "..."],
        place: Int[Tensor, "..."],
    ) -> Int[Tensor, "A C *M"]:
        """Return a drawn token for each row of logits.

        One uniform number decides: it is the point at which the cumulated probabilities, in the
        order of the vocabulary, are cut. So rounding changes a token only where it crosses a point.
        """
        if logits.dim() > 3:  # one place after the other, because probabilities take much memory
            parts = zip(logits.unbind(2), place, strict=True)
            return torch.stack([self.pick(one, column.squeeze(-1), at) for one, at in parts], 2)
        seeds, items = self.seeds.to(column.device), self.items.to(column.device)
        sample = column % self.samples + self.first
        counters = seeds.unsqueeze(1), items[column // self.samples], sample, place
        drawn = uniform(constant(STREAM, column.device), *counters)
        reached = nucleus(logits, self.decoding).cumsum(-1)
        point = drawn.unsqueeze(-1) * reached[..., -1:]
        return (
            torch.searchsorted(reached, point, right=True)
            .squeeze(-1)
            .clamp(max=logits.shape[-1] - 1)
        )


@dataclass(frozen=True)
class DrawnBy:
    """What the draws of a model's answers depend on.

    Attributes:
        decoding: temperature, samples and further settings.
        seeds: the seed of each replicate.
    """

    decoding: AnswerDecoding
    seeds: Sequence[int]

    def draws(self, rows: int, items: Int[Tensor, "B"]) -> Draws | None:
        """Return the draws for `rows`, which divide the replicates.

        Replicates that share a row have the draws of the first of them. None if nothing is drawn.
        """
        if not self.decoding.is_sampled:
            return None
        seeds = torch.tensor(self.seeds[:: len(self.seeds) // rows], device=items.device)
        return Draws(self.decoding, seeds, items, self.decoding.samples)


def nucleus(logits: Float[Tensor, "... V"], decoding: AnswerDecoding) -> Float[Tensor, "... V"]:
    """Return the probabilities of tokens, 0 outside the nucleus.

    They are in double precision. The nucleus has the likeliest tokens, as many as together reach
    `top_p`.

    Source: Holtzman et al. (ICLR 2020), section 3.1.
    """
    chances = (logits.double() / decoding.temperature).softmax(-1)
    if decoding.top_p == 1:
        return chances
    ranked, order = chances.sort(dim=-1, descending=True, stable=True)
    kept = ranked.cumsum(-1) - ranked < decoding.top_p
    return chances * torch.zeros_like(kept).scatter(-1, order, kept)
