"""Which replicates go through the model at once.

The forward pass wants the same number of replicates of every seed, because those of a seed share
its items and its base. So replicates stand in the order of how many of their seed are still
trained; each pass takes whole seeds of one such number, or, where not even the trials of one seed
fit in memory, some trials of one seed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor

from adaptlab.engine.allocate import Trainables, leaves
from adaptlab.engine.dropout import training_step
from adaptlab.engine.grouped import lifted
from adaptlab.engine.items import Items
from adaptlab.engine.loss import mean_losses
from adaptlab.engine.model import Model
from adaptlab.engine.plan import Plan


@dataclass(frozen=True)
class Cut:
    """Rows of the buffers that are trained, and the seeds (their place in the items) they are of.

    Every one of the seeds has the same number of these rows.
    """

    rows: slice
    seeds: slice

    @property
    def replicates(self) -> int:
        """How many rows these are."""
        return self.rows.stop - self.rows.start


@dataclass(frozen=True)
class Pass:
    """A cut with what is needed to train it: the model and trainables of its rows alone."""

    cut: Cut
    model: Model
    trainables: Trainables
    replicate_seeds: Tensor

    def losses(self, items: Items, step: int, first_item: int = 0) -> Tensor:
        """The mean cross-entropy of each replicate at a step, [R]; of items [S, B, ...] of all."""
        at = training_step(self.model.plan, step, first_item, self.replicate_seeds)
        own = items.each(lambda tensor: tensor[self.cut.seeds])
        model, low = self._rounded
        if low is not self.trainables:
            low.flat.copy_(self.trainables.flat)  # all tensors at once
        return mean_losses(model, own, self.cut.replicates, at)

    @cached_property
    def _rounded(self) -> tuple[Model, Trainables]:
        """Model and trainables in the precision that training computes in.

        They are the pass's own, or copies that every step renews: gradients are taken of these.
        """
        plan, flat = self.model.plan, self.trainables.flat
        if plan.training_dtype == flat.dtype:
            return self.model, self.trainables
        copy = torch.empty_like(flat, dtype=plan.training_dtype)
        tensors = leaves(copy, plan.trained_shapes)
        model = replace(self.model, trained=tensors).for_training()
        return model, Trainables(copy, self.trainables.decays, tensors)

    def _slope(self, loss: Tensor) -> Tensor:
        """The gradient [R, N] of a loss, in the precision of what is trained."""
        return self._rounded[1].gradient(loss, self.trainables.flat.dtype)

    def gradient(self, items: Items, step: int, parts: int) -> tuple[Tensor, Tensor]:
        """The gradient [R, N] and losses [R] of a batch that goes through in equal parts."""
        size = items.tokens.shape[1] // parts
        if parts == 1:
            found = self.losses(items, step)
            return self._slope(found.sum()), found.detach()
        gradient = torch.zeros_like(self.trainables.flat)
        total = torch.zeros(len(gradient), dtype=gradient.dtype, device=gradient.device)
        for first in range(0, parts * size, size):
            span = slice(first, first + size)
            found = self.losses(items.part(span), step, first)
            weight = items.weight(span)
            found = found / parts if weight is None else found * self._of_own(weight).to(found)
            gradient += self._slope(found.sum())
            total += found.detach()
        return gradient, total

    def _of_own(self, values: Tensor) -> Tensor:
        """Of values [S] of all seeds those of its replicates, [R]."""
        return lifted(values[self.cut.seeds], self.cut.replicates)


def arranged(replicates: Iterable[int], trials: int) -> list[int]:
    """Replicates by how many of their seed there are, most first, then by seed and trial."""
    ordered = sorted(replicates)
    of_seed = Counter(replicate // trials for replicate in ordered)
    return sorted(ordered, key=lambda replicate: -of_seed[replicate // trials])


def seeds_of(live: Sequence[int], trials: int) -> list[int]:
    """The seeds of arranged replicates, each once."""
    return list(dict.fromkeys(replicate // trials for replicate in live))


def cuts(live: Sequence[int], trials: int, most: int) -> list[Cut]:
    """Arranged replicates in as few passes as there can be of at most `most` replicates each."""
    of_seed = Counter(replicate // trials for replicate in live)
    found: list[Cut] = []
    row = seed = 0
    for each, group in groupby(of_seed.values()):
        for count in _evenly(len(list(group)), max(1, most // each)):
            for part in _evenly(each, most) if each > most else [count * each]:
                found.append(Cut(slice(row, row + part), slice(seed, seed + count)))
                row += part
            seed += count
    return found


def _evenly(count: int, most: int) -> Iterator[int]:
    """A count as a sum of as few and as equal numbers of at most `most` as possible."""
    parts = -(-count // most)
    for part in range(parts):
        yield (part + 1) * count // parts - part * count // parts


def passes(
    plan: Plan,
    base: Mapping[str, Tensor],
    live: Sequence[int],
    flat: Tensor,
    decays: Tensor,
    most: int,
) -> list[Pass]:
    """The passes over the rows of flat [L, N], which are those of the arranged replicates `live`.

    `base` holds the frozen tensors [G, ...] of all seeds of the plan.
    """
    seeds = seeds_of(live, plan.trials)
    return [_pass(plan, base, seeds, flat, decays, cut) for cut in cuts(live, plan.trials, most)]


def _pass(
    plan: Plan,
    base: Mapping[str, Tensor],
    seeds: Sequence[int],
    flat: Tensor,
    decays: Tensor,
    cut: Cut,
) -> Pass:
    own = seeds[cut.seeds]
    rows = flat[cut.rows]
    trained = leaves(rows, plan.trained_shapes)
    model = Model(plan, {name: of_seeds(t, own) for name, t in base.items()}, trained)
    repeated = plan.seeds[own].repeat_interleave(cut.replicates // len(own))
    return Pass(cut, model, Trainables(rows, decays, trained), repeated)


def of_seeds(tensor: Tensor, seeds: Sequence[int]) -> Tensor:
    """The rows of some seeds of a base tensor [G, ...]; without a copy where that is possible."""
    if len(tensor) == 1:
        return tensor
    first, last = seeds[0], seeds[-1]
    follow_each_other = list(seeds) == list(range(first, last + 1))
    return tensor[first : last + 1] if follow_each_other else tensor[list(seeds)]


def in_passes(each: Sequence[Pass], work: Callable[[Pass], Tensor]) -> Tensor:
    """What some work finds for the rows of every pass, [L, ...]."""
    found = [work(one) for one in each]
    return found[0] if len(found) == 1 else torch.cat(found)
