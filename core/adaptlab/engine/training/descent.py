"""Gradient descent on the replicates that are still trained.

Nothing here mixes replicates: leaving some out, or dividing the others into more passes, changes
the rest by no more than the rounding of batched products.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TypedDict, TypeVar

import torch
from torch import Tensor

from adaptlab.engine.items.items import Items
from adaptlab.engine.items.task_items import items_of_steps
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.models.step_threads import Lanes, LaneShare
from adaptlab.engine.plugins import ENGINE_SEARCHES
from adaptlab.engine.tensors import Float, Int, Shaped
from adaptlab.engine.training.allocate import Gradient, Trainables
from adaptlab.engine.training.chunks import StepDivision, fitting, more_parts
from adaptlab.engine.training.early_stopping import ValidationPatience
from adaptlab.engine.training.optim import AdamW, schedule_factor
from adaptlab.engine.training.passes import Cut, ReplicatePass, arranged, joined, passes, seeds_of
from adaptlab.engine.training.token_search import TokenSearch
from adaptlab.engine.training.training_state import TrainingState
from adaptlab.errors import OutOfMemory, is_out_of_memory

T = TypeVar("T")


class DescentState(TypedDict):
    """The saved part of a descent; see `TrainingState`."""

    flat: Tensor
    mean: Tensor
    square: Tensor
    between: Tensor | None
    best: Tensor | None
    live: tuple[int, ...]
    most: int
    parts: int
    recomputes: bool
    highest: tuple[float, ...]
    lowest: tuple[float, ...]
    waited: tuple[int, ...]


class Descent:
    """Weights, moments and passes of the live replicates, L of R.

    `trainables` belong to all R. The final weights of a replicate are written there when it is left
    out, or by `finish`.
    """

    def __init__(
        self,
        plan: Plan,
        base: Mapping[str, Tensor],
        trainables: Trainables,
        memory_bytes: int | None,
    ) -> None:
        training = plan.training
        self.live = arranged(range(plan.replicates), plan.trials)
        self._most_passes = 1
        self.recomputes = False
        self.lanes = Lanes(torch.get_num_threads())
        self._plan, self._base, self._memory_bytes = plan, base, memory_bytes
        self._all = self._trainables = trainables
        self._optimiser = _optimiser(plan, base, trainables)
        self._rates = plan.replicate_rates
        rule = plan.early_stopping
        self._patience = None if rule is None else ValidationPatience.begin(rule, trainables.flat)
        self._most, self._parts = plan.replicates, training.accumulation
        self._length = 0
        self._shares: list[list[ReplicatePass]] = []
        self._by_items: list[list[ReplicatePass]] = []

    @property
    def division(self) -> StepDivision:
        """The finest division of a step so far."""
        return StepDivision(self._most_passes, self._parts, self.recomputes)

    @property
    def seeds(self) -> list[int]:
        """The seeds whose items a step needs, in order."""
        return seeds_of(self.live, self._plan.trials)

    def step(self, items: Items, step: int) -> Float[Tensor, "L"]:
        """Update every live replicate and return the losses before the update."""
        if not self._shares:
            self._divide(items)
        training = self._plan.training
        factor = schedule_factor(step, training.steps, training.warmup_fraction, training.schedule)
        if isinstance(self._optimiser, AdamW):
            return self._descend(self._optimiser, items, step, factor)
        slopes = self._within_memory(lambda: self._slopes(items, step))
        gradient = joined([gradient.flat for gradient, _ in slopes])
        losses = joined([losses for _, losses in slopes])
        self._search(self._optimiser, items, step, (gradient, losses), factor)
        return losses

    def _descend(self, optimiser: AdamW, items: Items, step: int, factor: float) -> Tensor:
        """Move the weights along the gradient; return the losses [L]."""
        optimiser.begin(self._rates * factor)

        def work() -> Sequence[tuple[Gradient | None, Tensor]]:
            if self._alone is None or self._parts > 1:
                return self._slopes(items, step)
            return [self._alone.gradient_or_move(items, step, optimiser.move)]

        slopes = self._within_memory(work)
        gradients = iter(gradient for gradient, _ in slopes)

        def move(moved: tuple[Cut, Gradient | None]) -> None:
            cut, gradient = moved
            if gradient is not None:
                optimiser.move(gradient, cut.rows)

        # Only now, because the gradients may have been computed again in smaller passes.
        moves = [[(part.cut, next(gradients)) for part in own] for own in self._shares]
        self.lanes.each(moves, move)
        return joined([losses for _, losses in slopes])

    def _search(
        self,
        search: TokenSearch,
        items: Items,
        step: int,
        slope: tuple[Tensor, Tensor],
        factor: float,
    ) -> None:
        """Exchange tokens; candidates are compared on the items of any step."""

        @cache  # for all candidates of this step
        def items_at(at: int) -> Items:
            if at == step:
                return items
            seeds, size = self._plan.seeds[self.seeds], self._plan.training.batch_size
            return next(items_of_steps(self._plan.task, seeds, size, range(at, at + 1)))

        def losses_of(flat: Tensor, at: int) -> Tensor:
            return self._within_memory(lambda: self._losses(flat, items_at(at), at))

        gradient, losses = slope
        search.step(gradient, self._rates * factor, losses, losses_of)

    def _losses(self, flat: Tensor, items: Items, step: int) -> Tensor:
        """Return the losses [L] of other weights, pass by pass."""
        tried = self._passes_over(self.live, flat)
        return self._in_lanes(tried, lambda part: part.mean_losses(items, step, self._parts))

    def measure(self, work: Callable[[ReplicatePass], Tensor]) -> Shaped[Tensor, "L ..."]:
        """Return the results of `work` for the live replicates."""
        return self._within_memory(lambda: self._in_lanes(self._shares, work))

    def standing(
        self, replicates: Sequence[int], work: Callable[[ReplicatePass], Tensor]
    ) -> Shaped[Tensor, "W ..."]:
        """Return the results of `work` for replicates, as if they ended now.

        They may have been left out.
        """
        return self._within_memory(lambda: self._in_lanes(self._as_ended(replicates), work))

    def impatient(self, losses: Sequence[float], metrics: Sequence[float]) -> list[int]:
        """Return the replicates that stop early after a validation [L]."""
        if self._patience is None:
            return []
        rows = self._patience.take_note(losses, metrics, self._trainables.flat)
        return [self.live[row] for row in rows]

    def keep(self, replicates: Sequence[int]) -> Int[Tensor, "L"]:
        """Leave out all other replicates; return the kept ones' former rows."""
        live, present = arranged(replicates, self._plan.trials), self.live
        rows = self._place([present.index(replicate) for replicate in live])
        left_out = [row for row, replicate in enumerate(present) if replicate not in live]
        final_weights = self._kept()[left_out]
        self._narrow(live, rows)
        self._all.flat[[present[row] for row in left_out]] = final_weights
        return rows

    def close(self) -> None:
        """End the threads of lanes."""
        self.lanes.close()

    def finish(self) -> None:
        """Write the final weights of live replicates into the trainables of all."""
        kept = self._kept()
        if kept is not self._all.flat:
            self._all.flat[self.live] = kept

    def state(self) -> DescentState:
        """Return everything that later steps depend on."""
        mean, square = self._optimiser.moments
        flat, patience = self._all.flat, self._patience
        if self._trainables is not self._all:
            flat = flat.clone()
            flat[self.live] = self._trainables.flat
        return DescentState(
            flat=flat,
            mean=mean,
            square=square,
            between=None if isinstance(self._optimiser, AdamW) else self._optimiser.between,
            best=None if patience is None else patience.best,
            live=tuple(self.live),
            most=self._most,
            parts=self._parts,
            recomputes=self.recomputes,
            highest=() if patience is None else tuple(patience.highest),
            lowest=() if patience is None else tuple(patience.lowest),
            waited=() if patience is None else tuple(patience.waited),
        )

    def restore(self, state: TrainingState) -> None:
        """Resume from a saved state.

        Passes and parts are no larger than they were, and blocks are computed again if they were.
        """
        self._all.flat.copy_(state.flat)
        if list(state.live) != self.live:
            self._narrow(list(state.live), self._place(state.live))
        if isinstance(self._optimiser, AdamW):
            self._optimiser.restore(state.mean, state.square, state.step)
        else:
            self._optimiser.restore(state.mean, state.square, state.step, state.between)
        self._most, self._parts = state.most, max(self._parts, state.parts)
        self.recomputes = state.recomputes
        if self._patience is not None and state.best is not None:
            self._patience = ValidationPatience(
                self._patience.rule,
                state.best,
                list(state.highest) or [0.0] * len(state.lowest),  # of an earlier version
                list(state.lowest),
                list(state.waited),
            )

    def _as_ended(self, replicates: Sequence[int]) -> list[list[ReplicatePass]]:
        """Return passes over the weights that replicates would end with now."""
        if self._patience is None and list(replicates) == self.live:
            return self._shares
        place = {replicate: row for row, replicate in enumerate(self.live)}
        rows = [row for row, replicate in enumerate(replicates) if replicate in place]
        flat = self._all.flat[self._place(replicates)]
        flat[rows] = self._kept()[[place[replicates[row]] for row in rows]]
        return self._passes_over(replicates, flat)

    def _kept(self) -> Tensor:
        """Return the weights [L, N] that live replicates would end with now."""
        flat = self._trainables.flat
        return flat if self._patience is None else self._patience.kept(flat)

    def _passes_over(
        self, replicates: Sequence[int], flat: Tensor, shared: LaneShare | None = None
    ) -> list[list[ReplicatePass]]:
        """Return passes over weights [W, N] of replicates, by lane."""
        return passes(
            self._plan,
            self._base,
            replicates,
            flat,
            self._trainables.decays,
            self._most,
            (shared or self._shared(len(replicates))).of_replicates,
            recomputes=self.recomputes,
        )

    def _shared(self, replicates: int) -> LaneShare:
        """Return how lanes share a step of some replicates."""
        items = self._plan.training.batch_size // self._parts
        tokens = self._plan.training.batch_size * self._length
        return self.lanes.division(self._plan, replicates, self._most, (items, tokens))

    def _in_lanes(
        self, shares: Sequence[Sequence[ReplicatePass]], work: Callable[[ReplicatePass], Tensor]
    ) -> Tensor:
        """Return the results [L, ...] of `work` for the rows of all passes."""
        return joined(self.lanes.each(shares, work))

    def _narrow(self, live: list[int], rows: Tensor) -> None:
        """Restrict buffers, optimiser and passes to these rows."""
        flat, decays = self._trainables.flat[rows], self._trainables.decays
        self._trainables = Trainables(flat, decays, {})
        self._optimiser = self._optimiser.of(self._trainables, rows)
        self._rates = self._rates[rows]
        self._patience = None if self._patience is None else self._patience.of(rows)
        self.live = live
        if self._shares:
            self._cut()

    def _divide(self, items: Items) -> None:
        """Measure how much fits in memory, and divide replicates and batches.

        Items can be shorter than those of later steps, so they are padded to the greatest length.
        """
        longest = self._plan.task.content_length(self._plan.family)
        padded, flat = items.padded(longest), self._trainables.flat
        one = passes(self._plan, self._base, self.live, flat, self._trainables.decays, 1)
        division = fitting(
            one[0][0],
            padded,
            self._parts,
            self._memory_bytes,
            self._base,
            self._all.flat.numel(),
        )
        if division is not None:
            self._most, self._parts = min(self._most, division.most), division.parts
            self.recomputes = division.recomputes
        self._length = padded.tokens.shape[-1]
        self._cut()

    def _cut(self) -> None:
        """Divide the live replicates into passes, and a step into lanes."""
        flat, shared = self._trainables.flat, self._shared(len(self.live))
        self._shares = self._passes_over(self.live, flat, shared)
        copies = range(shared.lanes if shared.by_items else 0)
        self._by_items = [self._passes_over(self.live, flat, shared)[0] for _ in copies]

    @property
    def _alone(self) -> ReplicatePass | None:
        """The pass of the whole step, None if there are several."""
        ((first, *others), *further) = self._by_items or self._shares
        return None if others or further else first

    def _slopes(self, items: Items, step: int) -> list[tuple[Gradient, Tensor]]:
        """Return the gradients and losses [R] of all passes, in order."""
        if self._most < len(self.live):
            self._most_passes = max(self._most_passes, *map(len, self._shares))
        parts, lanes = self._parts, len(self._by_items)
        if not lanes:
            return self.lanes.each(self._shares, lambda part: part.gradient(items, step, parts))

        def of_own(part: tuple[int, ReplicatePass]) -> tuple[Gradient, Tensor]:
            lane, whole = part
            own = range(lane * parts, (lane + 1) * parts)
            return whole.gradient(items, step, lanes * parts, own)

        numbered = [[(lane, part) for part in own] for lane, own in enumerate(self._by_items)]
        slopes = self.lanes.each(numbered, of_own)
        each = len(slopes) // lanes
        for place, (gradient, losses) in enumerate(slopes[each:]):
            total, mean = slopes[place % each]
            slopes[place % each] = total.plus(gradient), mean.add_(losses)
        return slopes[:each]

    def _within_memory(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, with smaller passes if memory runs out."""
        while True:
            try:
                return work()
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                reason = str(error)
            # After the handler, because the error keeps the tensors of the failed work alive.
            self._halve(reason)

    def _halve(self, reason: str) -> None:
        """Halve the passes, or divide the batch if they have one replicate each.

        If they have one item each as well, blocks are computed again in the backward pass.
        """
        at_once = sum(max(part.cut.replicates for part in own) for own in self._shares)
        size = self._plan.training.batch_size
        if at_once == 1 and self._parts == size and self.recomputes:
            raise OutOfMemory(
                "Not even one item of one replicate at a time fits in memory. Adapt a smaller base "
                f"model, or raise the memory of a run (ADAPTLAB_MEMORY_BYTES): {reason}"
            )
        if at_once == 1 and self._parts == size:
            self.recomputes = True
        elif at_once == 1:
            self._parts = more_parts(self._parts, size)
        else:
            self._most = at_once // 2
        if self._plan.device.type == "cuda":
            torch.cuda.empty_cache()
        self._cut()

    def _place(self, rows: Sequence[int]) -> Tensor:
        return torch.tensor(rows, dtype=torch.int64, device=self._plan.device)


def _optimiser(
    plan: Plan, base: Mapping[str, Tensor], trainables: Trainables
) -> AdamW | TokenSearch:
    """Return what updates the weights: gradient descent, or a search."""
    if plan.method is not None and plan.method.is_search and plan.method.trains:
        search: TokenSearch = ENGINE_SEARCHES.get(plan.method.name)(plan, base, trainables)
        return search
    return AdamW(trainables, plan.replicate_decays, plan.training.gradient_clip)
