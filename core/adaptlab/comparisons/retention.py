"""Cued retention: how much of an old task's skill an adaptation leaves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from adaptlab.comparisons.retained_metric import metric_values
from adaptlab.comparisons.scores import SHOWN_SPLIT
from adaptlab.comparisons.task_retention import LEVEL, ROUTED, WHOLE_TEXTS, TaskRetention
from adaptlab.figures import percent
from adaptlab.plugins.metric import Metric, is_measured_against_base
from adaptlab.records.rendered_items import text_metrics
from adaptlab.runs.events import Evaluation
from adaptlab.runs.item_outcomes import outcomes_of
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

    Seeds are paired: both scores of a seed are of one base replicate on the same items. They are
    by the task's own metric if `by_metric` and if that can be retained, otherwise of right items;
    `note` says why it cannot.
    """

    def __init__(
        self, pairs: Sequence[tuple[Evaluation, Evaluation]], *, by_metric: bool = True
    ) -> None:
        items = pairs[0][0].total
        self._pairs = [pair for pair in pairs if {one.total for one in pair} == {items}]
        self._attached, self._base = zip(*self._pairs, strict=True)
        self.task = self._attached[0].task
        self.items = items
        self.seeds = tuple(one.seed for one in self._attached)
        self.clusters = self._attached[0].clusters
        self._by_metric = by_metric
        found = metric_values(self.task, self._attached, self._base) if by_metric else None
        self._values = None if isinstance(found, str) else found
        self.note = found if isinstance(found, str) and not text_metrics(self.task) else None

    @property
    def metric(self) -> Metric | None:
        """The metric that outcomes are values of, None for right items."""
        return self._values and self._values.metric

    def outcomes(self) -> tuple[Outcomes, Outcomes]:
        """Return the outcomes of adapted and of base models, [seed, item]."""
        if self._values is not None:
            return self._values.attached, self._values.base
        return outcomes_of(self._attached), outcomes_of(self._base)

    def units(self) -> tuple[Outcomes, Outcomes]:
        """Return likewise one value per group of items, if they have groups."""
        if not self.clusters:
            return self.outcomes()
        attached, base = (clustered(bits, self.clusters) for bits in self.outcomes())
        return attached, base

    def of_seeds(self, seeds: Sequence[int]) -> "OldTask":
        """Return the scores of some seeds, in the order of the scores."""
        pairs = [pair for pair in self._pairs if pair[0].seed in seeds]
        return OldTask(pairs, by_metric=self._by_metric)

    @property
    def base_accuracy(self) -> float:
        """The mean accuracy of the base models, or value of the metric."""
        if self._values is not None:
            return float(self._values.base.mean())
        return sum(one.accuracy for one in self._base) / len(self._base)

    def floor(self) -> Floor | None:
        """Return the score without skill, None if the task is not installed."""
        if self._values is not None:
            return Floor(accuracy=self._values.floor, kind="constant_answer")
        if (known := task_floors(self.task)) is None:
            return None
        return floor_of(known[0], (one.majority for one in self._base), None, known[1])

    def refusal(self, floor: Floor) -> str | None:
        """Return the reason why the base has nothing to retain, if so.

        Every base is shown to have the skill, each at 5 %: together they err no more often
        (intersection-union).
        """
        if text_metrics(self.task):
            return WHOLE_TEXTS
        least = least_skill(floor)
        limit, weakest = min(self._shown())
        if limit > least:
            return None
        cue = "with" if "cue" in self.task else "without"
        return (
            f"The base is at its floor {cue} a cue: {weakest}, at least "
            f"{percent(limit)} at 95 %, and {percent(least)} is the least skill above the floor of "
            f"{percent(floor.accuracy)}. Watch the task with a cue after which the base does it: a "
            "token, an instruction or demonstrations."
        )

    def _shown(self) -> Iterator[tuple[float, str]]:
        """Yield what each base's score is shown to exceed, and the score as text."""
        if self._values is not None:
            values = self._values.base.mean(axis=1).tolist()
            title = self._values.metric.in_sentence
            limits = self._values.shown(self.clusters)
            yield from zip(limits, (f"{title} {percent(one)}" for one in values), strict=True)
            return
        for one in self._base:
            limit = shown_accuracy(_right(one), _counted(one))
            yield limit, f"{percent(one.accuracy)} right"

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
    every = paired_tasks(evaluations)
    return next((OldTask(pairs, by_metric=False) for task, pairs in every if task == new), None)


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
        metric=task.metric and task.metric.name,
        note=task.note,
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


def _same(first: Evaluation, second: Evaluation) -> bool:
    count = min(first.total, second.total)
    ours, theirs = (outcomes_of([one])[0, :count] for one in (first, second))
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
