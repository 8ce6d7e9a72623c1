"""Cued retention: how much of an old task's skill an adaptation leaves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from adaptlab.comparisons.scores import SHOWN_SPLIT
from adaptlab.comparisons.task_retention import LEVEL, ROUTED, TaskRetention
from adaptlab.figures import percent
from adaptlab.plugins.metric import is_measured_against_base
from adaptlab.runs.events import Evaluation
from adaptlab.specs.spec import Mode
from adaptlab.specs.task_floor import task_floors
from adaptlab.statistics.failing import Floor, floor_of
from adaptlab.statistics.retention import (
    least_skill,
    retained,
    retention_limits,
    shown_accuracy,
)
from adaptlab.statistics.samples import Sample, clustered
from adaptlab.statistics.scores import Outcomes


@dataclass(frozen=True)
class BaseScores:
    """The test scores of a base model's own job.

    `started` has the replicate of the base that every seed of the adaptation starts from.
    """

    scores: Sequence[Evaluation]
    started: Mapping[int, int]


class OldTask:
    """The scores of seeds on one task, adapted and of their base models.

    Seeds are paired: both scores of a seed are of one base replicate on the same items.
    """

    def __init__(self, pairs: Sequence[tuple[Evaluation, Evaluation]]) -> None:
        items = pairs[0][0].total
        self._pairs = [pair for pair in pairs if {one.total for one in pair} == {items}]
        self._attached, self._base = zip(*self._pairs, strict=True)
        self.task = self._attached[0].task
        self.items = items
        self.seeds = tuple(one.seed for one in self._attached)
        self.clusters = self._attached[0].clusters

    def outcomes(self) -> tuple[Outcomes, Outcomes]:
        """Return the outcomes of adapted and of base models, [seed, item]."""
        return _bits(self._attached), _bits(self._base)

    def units(self) -> tuple[Outcomes, Outcomes]:
        """Return likewise one value per group of items, if they have groups."""
        if not self.clusters:
            return self.outcomes()
        attached, base = (clustered(bits, self.clusters) for bits in self.outcomes())
        return attached, base

    def of_seeds(self, seeds: Sequence[int]) -> "OldTask":
        """Return the scores of some seeds, in the order of the scores."""
        return OldTask([pair for pair in self._pairs if pair[0].seed in seeds])

    @property
    def base_accuracy(self) -> float:
        """The mean accuracy of the base models."""
        return sum(one.accuracy for one in self._base) / len(self._base)

    def floor(self) -> Floor | None:
        """Return the accuracy without skill, None if the task is not installed."""
        if (known := task_floors(self.task)) is None:
            return None
        return floor_of(known[0], (one.majority for one in self._base), None, known[1])

    def refusal(self, floor: Floor) -> str | None:
        """Return the reason why the base has nothing to retain, if so.

        Every base is shown to have the skill, each at 5 %: together they err no more often
        (intersection-union).
        """
        least = least_skill(floor)
        limits = ((one, shown_accuracy(_right(one), _counted(one))) for one in self._base)
        weakest, limit = min(limits, key=lambda one: one[1])
        if limit > least:
            return None
        cue = "with" if "cue" in self.task else "without"
        return (
            f"The base is at its floor {cue} a cue: {percent(weakest.accuracy)} right, at least "
            f"{percent(limit)} at 95 %, and {percent(least)} is the least skill above the floor of "
            f"{percent(floor.accuracy)}. Watch the task with a cue after which the base does it: a "
            "token, an instruction or demonstrations."
        )

    def is_reversible(self, of_base: BaseScores) -> bool | None:
        """Return True if detached outcomes are those of the base's own job.

        The result is None if that job has not scored the task. With other numbers of items, the
        first ones are compared, which both have in common.
        """
        pairs = self._detached_and_own(of_base)
        return all(_same(*pair) for pair in pairs) if pairs else None

    def loss_change(self, of_base: BaseScores) -> float | None:
        """Return the largest difference of detached losses from that job's.

        The result is None if a loss is not kept, or is that of other items.
        """
        changes = [_loss_change(*pair) for pair in self._detached_and_own(of_base)]
        known = [one for one in changes if one is not None]
        return max(known) if known and len(known) == len(changes) else None

    def _detached_and_own(self, of_base: BaseScores) -> list[tuple[Evaluation, Evaluation]]:
        """Return detached scores with those of the base's own job, by seed.

        There are none if that job has not scored the task.
        """
        scores = [one for one in of_base.scores if one.task == self.task]
        # Of several trials, a replicate of the base is the one that its seed keeps.
        own = dict(enumerate(sorted(scores, key=lambda one: one.replicate)))
        started = (own.get(of_base.started.get(seed, -1)) for seed in self.seeds)
        every = zip(self._base, started, strict=True)
        pairs = [(ours, theirs) for ours, theirs in every if theirs is not None]
        return pairs if len(pairs) == len(self.seeds) else []

    def sample(self, floor: Floor) -> Sample:
        """Return the retention of every seed."""
        return retained(*self.outcomes(), floor.accuracy, self.clusters)


def old_tasks(
    evaluations: Sequence[Evaluation], new: Mapping[str, object] | None
) -> Iterator[OldTask]:
    """Yield the tasks other than the `new` one that were scored both ways.

    Texts on which drift is measured have no right items.
    """
    for task, pairs in paired_tasks(evaluations):
        if task != new and not is_measured_against_base(task.get("metric")):
            yield OldTask(pairs)


def gained(evaluations: Sequence[Evaluation], new: Mapping[str, object] | None) -> OldTask | None:
    """Return the scores on the new task, None unless it was scored both ways."""
    return next((OldTask(pairs) for task, pairs in paired_tasks(evaluations) if task == new), None)


def paired_tasks(
    evaluations: Sequence[Evaluation],
) -> Iterator[tuple[Mapping[str, object], list[tuple[Evaluation, Evaluation]]]]:
    """Yield tasks that were scored both ways, with adapted and base by seed."""
    ours = [one for one in evaluations if one.split == SHOWN_SPLIT and one.base_model is None]
    tasks: list[Mapping[str, object]] = []
    for one in ours:
        if one.task not in tasks:
            tasks.append(one.task)
    for task in tasks:
        alone = {one.replicate: one for one in ours if one.task == task and not one.attached}
        pairs = [
            (one, alone[one.replicate])
            for one in ours
            if one.task == task and one.attached and one.replicate in alone
        ]
        if pairs:
            yield task, sorted(pairs, key=lambda pair: pair[0].seed)


def retention(
    evaluations: Sequence[Evaluation],
    new: Mapping[str, object] | None,
    level: float = LEVEL,
    mode: Mode = "always_on",
    of_base: BaseScores | None = None,
) -> tuple[TaskRetention, ...]:
    """Return the retention of every old task, in the order of the evaluations.

    Args:
        evaluations: test scores with outcomes, adapted and of the base alone.
        new: the task that was trained on.
        level: the confidence of the limits.
        mode: how the adaptation is used.
        of_base: the scores of the base model's own job.
    """
    found = (_retention(task, level, mode, of_base) for task in old_tasks(evaluations, new))
    return tuple(one for one in found if one is not None)


def _retention(
    task: OldTask, level: float, mode: Mode, of_base: BaseScores | None
) -> TaskRetention | None:
    if (floor := task.floor()) is None:
        return None
    common = TaskRetention(
        task=task.task,
        base=task.base_accuracy,
        floor=floor.accuracy,
        items=task.items,
        level=level,
        mode=mode,
        reversible=None if of_base is None else task.is_reversible(of_base),
        loss_change=None if of_base is None else task.loss_change(of_base),
    )
    if mode == "routed":
        return common.model_copy(update={"reason": ROUTED})
    if (reason := task.refusal(floor)) is not None:
        return common.model_copy(update={"reason": reason})
    sample = task.sample(floor)
    low, high = retention_limits(sample, task.base_accuracy, floor.accuracy, level)
    by_seed = tuple(sample.values.tolist())
    known = {"seeds": task.seeds, "by_seed": by_seed, "mean": sample.mean, "low": low, "high": high}
    return common.model_copy(update=known)


def _bits(scored: Sequence[Evaluation]) -> Outcomes:
    packed = np.frombuffer(bytes.fromhex("".join(one.outcomes for one in scored)), np.uint8)
    items = scored[0].total
    bits = np.unpackbits(packed.reshape(len(scored), -1), axis=1, count=items)
    return bits.astype(np.float64)


def _same(first: Evaluation, second: Evaluation) -> bool:
    count = min(first.total, second.total)
    ours, theirs = (_bits([one])[0, :count] for one in (first, second))
    return bool((ours == theirs).all())


def _loss_change(first: Evaluation, second: Evaluation) -> float | None:
    if first.total != second.total or first.loss is None or second.loss is None:
        return None
    return abs(first.loss - second.loss)


def _counted(one: Evaluation) -> float:
    """Return the number of items that count."""
    return one.effective_items or one.total


def _right(one: Evaluation) -> float:
    return one.accuracy * _counted(one)
