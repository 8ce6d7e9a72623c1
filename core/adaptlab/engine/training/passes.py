"""Division of the replicates into passes through the model.

The forward pass needs the same number of replicates of every seed, because those of a seed share
its items and base. So replicates are sorted by the number still trained of their seed. A pass takes
whole seeds with the same number, or some trials of one seed if not even these fit in memory.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor

from adaptlab.engine.items.items import Items
from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.kernels.rounding import rounded_products
from adaptlab.engine.models.demonstrating import demonstrations
from adaptlab.engine.models.dropout import training_step
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.tensors import Float, Int, Shaped
from adaptlab.engine.training.allocate import Gradient, Trainables, leaves
from adaptlab.engine.training.loss import mean_losses
from adaptlab.engine.training.step_graph import GraphPool, StepGraph, graphs_are_used


@dataclass(frozen=True)
class Cut:
    """Rows of the trained buffers, and their seeds as a slice of the items.

    Every seed has the same number of rows.
    """

    rows: slice
    seeds: slice

    @property
    def replicates(self) -> int:
        """The number of rows."""
        return self.rows.stop - self.rows.start

    def shifted(self, rows: int, seeds: int) -> "Cut":
        """Return the cut behind that many other rows and seeds."""
        return Cut(
            slice(rows + self.rows.start, rows + self.rows.stop),
            slice(seeds + self.seeds.start, seeds + self.seeds.stop),
        )


@dataclass(frozen=True)
class ReplicatePass:
    """A cut with the model and trainables of its rows."""

    cut: Cut
    model: Model
    trainables: Trainables
    replicate_seeds: Int[Tensor, "R"]
    pool: GraphPool = field(default_factory=GraphPool)

    def losses(
        self, items: Items, step: int | Int[Tensor, ""], first_item: int = 0
    ) -> Float[Tensor, "R"]:
        """Return each replicate's mean cross-entropy on its seed's items."""
        at = training_step(self.model.plan, step, first_item, self.replicate_seeds)
        own = items.each(lambda tensor: tensor[self.cut.seeds])
        model, low = self._rounded
        if low is not self.trainables:
            low.flat.copy_(self.trainables.flat)  # all tensors at once
        return mean_losses(model, own, self.cut.replicates, at)

    def recomputing(self) -> "ReplicatePass":
        """Return the same pass, in which blocks are computed again."""
        return replace(self, model=replace(self.model, recomputes=True))

    @cached_property
    def _rounded(self) -> tuple[Model, Trainables]:
        """Model and trainables in the precision that training computes in.

        These are the pass's own, or copies that every step updates and takes gradients of.
        """
        plan, flat = self.model.plan, self.trainables.flat
        if plan.training_dtype == flat.dtype:
            return self.model, self.trainables
        copy = torch.empty_like(flat, dtype=plan.training_dtype)
        tensors = leaves(copy, plan.trained_shapes)
        model = replace(self.model, trained=tensors).for_training()
        return model, Trainables(copy, self.trainables.decays, tensors)

    def _slope(self, loss: Tensor) -> Gradient:
        """Return the gradient of a loss, in the trainables' precision."""
        return self._rounded[1].gradient(loss, self.trainables.flat.dtype)

    def gradient(
        self, items: Items, step: int, parts: int, own: range | None = None
    ) -> tuple[Gradient, Float[Tensor, "R"]]:
        """Return gradient and losses of a batch, computed in equal parts.

        With `own`, they are what these parts add to those of the batch.
        """
        if parts == 1:
            if self._graph is None:
                return self._at_once(items, step)
            gradient, losses = self._graph(self._at_once, items, step)
            assert gradient is not None
            return gradient, losses
        gradient: Gradient | None = None
        total = torch.zeros_like(self.trainables.flat[:, 0])
        with self._rounding():
            for losses in self._weighted_losses(items, step, parts, own):
                slope = self._slope(losses.sum())
                gradient = slope if gradient is None else gradient.plus(slope)
                total += losses.detach()
        assert gradient is not None
        return gradient, total

    def gradient_or_move(
        self, items: Items, step: int, move: Callable[[Gradient], None]
    ) -> tuple[Gradient | None, Float[Tensor, "R"]]:
        """Return gradient and losses of an undivided batch.

        If the step is replayed, the recording has moved the weights by `move`, which takes the
        gradient, and none is returned. A pass is asked for this or for gradients, never for both.
        """
        if self._graph is None:
            return self._at_once(items, step)

        def moved(items: Items, step: Tensor) -> tuple[None, Tensor]:
            gradient, losses = self._at_once(items, step)
            move(gradient)
            return None, losses

        return self._graph(self._at_once, items, step, moved)

    @torch.no_grad()
    def mean_losses(self, items: Items, step: int, parts: int) -> Float[Tensor, "R"]:
        """Return the losses of a batch, computed in equal parts."""
        total = torch.zeros_like(self.trainables.flat[:, 0])
        with self._rounding():
            for losses in self._weighted_losses(items, step, parts):
                total += losses
        return total

    def _weighted_losses(
        self, items: Items, step: int, parts: int, own: range | None = None
    ) -> Iterator[Tensor]:
        """Yield what each part of a batch adds to the mean losses [R].

        The parts are all or the `own` ones.
        """
        size = items.tokens.shape[1] // parts
        for part in range(parts) if own is None else own:
            first = part * size
            span = slice(first, first + size)
            losses = self.losses(items.part(span), step, first)
            weight = items.weight(span)
            yield losses / parts if weight is None else losses * self._of_own(weight).to(losses)

    @cached_property
    def _graph(self) -> StepGraph | None:
        """The graph of an undivided batch, on a GPU if graphs are used."""
        is_gpu = self.model.plan.device.type == "cuda"
        return StepGraph(self.pool) if is_gpu and graphs_are_used() else None

    def _at_once(self, items: Items, step: int | Tensor) -> tuple[Gradient, Tensor]:
        with self._rounding():
            losses = self.losses(items, step)
            return self._slope(losses.sum()), losses.detach()

    def _rounding(self) -> AbstractContextManager[None]:
        """Return the context in which training computes matrix products."""
        return rounded_products(rounded=self.model.plan.rounds_products)

    def _of_own(self, values: Tensor) -> Tensor:
        """Select values [R] of this pass's replicates from those of seeds, [S]."""
        return lifted(values[self.cut.seeds], self.cut.replicates)


def arranged(replicates: Iterable[int], trials: int) -> list[int]:
    """Sort replicates by the number left of their seed, largest first.

    Ties are in the order of seed and trial.
    """
    ordered = sorted(replicates)
    of_seed = Counter(replicate // trials for replicate in ordered)
    return sorted(ordered, key=lambda replicate: -of_seed[replicate // trials])


def seeds_of(live: Sequence[int], trials: int) -> list[int]:
    """Return the distinct seeds of arranged replicates, in order."""
    return list(dict.fromkeys(replicate // trials for replicate in live))


def cuts(live: Sequence[int], trials: int, most: int) -> list[Cut]:
    """Divide arranged replicates into as few cuts as possible.

    Each has at most `most` replicates.
    """
    of_seed = Counter(replicate // trials for replicate in live)
    divided: list[Cut] = []
    row = seed = 0
    for size, group in groupby(of_seed.values()):
        for count in _at_most(len(list(group)), max(1, most // size)):
            for part in _at_most(size, most) if size > most else [count * size]:
                divided.append(Cut(slice(row, row + part), slice(seed, seed + count)))
                row += part
            seed += count
    return divided


def shares(live: Sequence[int], trials: int, most: int, lanes: int) -> list[list[Cut]]:
    """Divide arranged replicates among lanes, and each lane's into cuts.

    All lanes together compute at most `most` replicates at once.
    """
    seeds, divided, row = seeds_of(live, trials), list[list[Cut]](), 0
    for size in _evenly(len(live), lanes) if live else ():
        own = live[row : row + size]
        seed = seeds.index(own[0] // trials)
        divided.append([cut.shifted(row, seed) for cut in cuts(own, trials, most // lanes)])
        row += size
    return divided


def _at_most(count: int, most: int) -> Iterator[int]:
    """Split a count into as few parts as possible."""
    return _evenly(count, -(-count // most))


def _evenly(count: int, parts: int) -> Iterator[int]:
    """Split a count into parts that differ by at most one."""
    for part in range(parts):
        yield (part + 1) * count // parts - part * count // parts


def passes(
    plan: Plan,
    base: Mapping[str, Tensor],
    live: Sequence[int],
    flat: Float[Tensor, "L N"],
    decays: Float[Tensor, "N"],
    most: int,
    lanes: int = 1,
    *,
    recomputes: bool = False,
) -> list[list[ReplicatePass]]:
    """Return the passes over `flat`, the rows of arranged replicates, by lane.

    `base` holds the frozen tensors [G, ...] of all seeds of the plan. All lanes together compute at
    most `most` replicates at once. With `recomputes`, blocks are computed again in the backward
    pass.
    """
    seeds, pool = seeds_of(live, plan.trials), GraphPool()

    def made(cut: Cut) -> ReplicatePass:
        part = replace(_pass(plan, base, seeds, flat, decays, cut), pool=pool)
        return part.recomputing() if recomputes else part

    return [[made(cut) for cut in own] for own in shares(live, plan.trials, most, lanes)]


def _pass(
    plan: Plan,
    base: Mapping[str, Tensor],
    seeds: Sequence[int],
    flat: Tensor,
    decays: Tensor,
    cut: Cut,
) -> ReplicatePass:
    own = seeds[cut.seeds]
    rows = flat[cut.rows]
    trained = leaves(rows, plan.trained_shapes)
    share = cut.replicates // len(own)
    context = demonstrations(plan)
    before = None if context is None else context.rows([s for s in own for _ in range(share)])
    model = Model(plan, {name: of_seeds(t, own) for name, t in base.items()}, trained, before)
    repeated = plan.seeds[own].repeat_interleave(share)
    return ReplicatePass(cut, model, Trainables(rows, decays, trained), repeated)


def of_seeds(tensor: Shaped[Tensor, "G *N"], seeds: Sequence[int]) -> Shaped[Tensor, "G2 *N"]:
    """Return a base tensor's rows of some seeds, without a copy if possible."""
    if len(tensor) == 1:
        return tensor
    first, last = seeds[0], seeds[-1]
    follow_each_other = list(seeds) == list(range(first, last + 1))
    return tensor[first : last + 1] if follow_each_other else tensor[list(seeds)]


def joined(results: Sequence[Tensor]) -> Tensor:
    """Return the results [L, ...] of passes for all of their rows."""
    return results[0] if len(results) == 1 else torch.cat(list(results))
