"""The outcomes of one method: items that each seed got right."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Annotated, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from adaptlab.plugins.metric import FIRST_VERSION, METRICS, Metric, metric_named
from adaptlab.runs.events import Evaluation, FloorKind, Measure, MetricFloor
from adaptlab.runs.item_statistics import from_text, unpacked
from adaptlab.values import Value

Outcomes: TypeAlias = NDArray[np.float64]
"""Ones and zeros, shape [seed, item]; differences of outcomes can also be -1."""


def _is_empty(signatures: tuple[str, ...]) -> bool:
    return not signatures


class Scores(Value):
    """The outcomes of one method, for every seed and test item.

    They are at one budget on one task. Item i is the same item for every seed and every method, so
    tests are paired. `outcomes` has one entry per seed: bits packed as by `numpy.packbits`, in
    hexadecimal, as in `results.Evaluation`. `budget` is the requested one, None for a method
    without a budget, which is compared at every budget. `parameters` is the number of trained
    parameters, `trials` the number of tuning trials per seed. `bases` gives the replicate of the
    base model that each seed starts from, if it is recorded: seeds on one base are not independent.
    `majority` is the accuracy of always giving the items' most common label, None unless the task
    chooses among labels. `measured` has the task's other `metric` of every seed, if there is one,
    and `statistics` those of its items, as in `results.Measure`, if all seeds have them;
    `signatures` are the different ones of its values. A seed that does not beat `metric_floor` has
    learned nothing. `unscored` are seeds that were trained and have no score, because they diverged
    or crashed: they count as failing, with nothing right. `clusters` numbers the group of each item
    from 0, if the data have groups. Rows with the same `function` compute the same, and count as
    one method. A reference (`is_reference`) is no candidate at a budget below its size.
    """

    method: str
    budget: int | None = None
    parameters: int | None = None
    trials: int | None = None
    seeds: Annotated[tuple[int, ...], Field(min_length=1)]
    items: Annotated[int, Field(ge=1)]
    outcomes: tuple[str, ...]
    bases: tuple[int, ...] = ()
    majority: Annotated[float, Field(gt=0, le=1)] | None = None
    metric: str | None = None
    measured: tuple[float, ...] = ()
    statistics: tuple[str, ...] = ()
    signatures: Annotated[tuple[str, ...], Field(exclude_if=_is_empty)] = ()
    metric_floor: MetricFloor | None = None
    unscored: tuple[int, ...] = ()
    clusters: tuple[int, ...] = ()
    function: str | None = None
    is_reference: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Raise `ValueError` for a repeated seed or a row of wrong length."""
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"{self.method} has a seed twice: {self.seeds}.")
        if len(self.outcomes) != len(self.seeds):
            raise ValueError(
                f"{self.method} has {len(self.seeds)} seeds and {len(self.outcomes)} rows of "
                "outcomes; give one row per seed."
            )
        if self.bases and len(self.bases) != len(self.seeds):
            raise ValueError(f"{self.method} has {len(self.bases)} bases; give one per seed.")
        if len(self.measured) != (0 if self.metric is None else len(self.seeds)):
            raise ValueError(
                f"{self.method} has {len(self.seeds)} seeds and {len(self.measured)} values of a "
                "metric; give one per seed with its name, or neither."
            )
        if twice := set(self.seeds) & set(self.unscored):
            raise ValueError(f"{self.method} has a score for seeds without one: {sorted(twice)}.")
        if len(self.clusters) not in (0, self.items):
            raise ValueError(
                f"{self.method} has {len(self.clusters):,} clusters; give one per item, or none."
            )
        digits = 2 * ((self.items + 7) // 8)
        for seed, packed in zip(self.seeds, self.outcomes, strict=True):
            if len(packed) != digits:
                raise ValueError(
                    f"Seed {seed} of {self.method} has {len(packed)} hexadecimal digits; "
                    f"{self.items:,} items take {digits:,}."
                )
        return self

    @property
    def trained(self) -> tuple[int, ...]:
        """All trained seeds, those without a score included."""
        return (*self.seeds, *self.unscored)

    @property
    def label(self) -> str:
        """The method with its budget, if it has one, as messages name the row."""
        return self.method if self.budget is None else f"{self.method} at {self.budget:,}"

    def cautions(self) -> tuple[str, ...]:
        """Return what to know of the metric's values before reading them."""
        if self.metric is None or not self.statistics:
            return ()
        metric = METRICS.get(self.metric)
        every = [unpacked(from_text(one), self.items, metric.columns) for one in self.statistics]
        text = metric.caution(np.concatenate(every))
        return () if text is None else (text,)

    def matrix(self, seeds: Sequence[int] | None = None) -> Outcomes:
        """Return the outcomes as numbers, [seed, item].

        Seeds are all or the given ones, in their order.
        """
        return self.bits(self.seeds if seeds is None else seeds).astype(np.float64)

    def bits(self, seeds: Sequence[int]) -> NDArray[np.uint8]:
        """Return the outcomes of these seeds as bytes of 0 and 1, [seed, item].

        A seed without a score gets nothing right.
        """
        rows = dict(zip(self.seeds, self.outcomes, strict=True))
        rows |= dict.fromkeys(self.unscored, "00" * ((self.items + 7) // 8))
        packed = np.frombuffer(bytes.fromhex("".join(rows[seed] for seed in seeds)), np.uint8)
        return np.unpackbits(packed.reshape(len(seeds), -1), axis=1, count=self.items)


def scores_of(
    method: str,
    evaluations: Sequence[Evaluation],
    *,
    budget: int | None = None,
    parameters: int | None = None,
    trials: int | None = None,
    bases: Mapping[int, int] | None = None,
    metric: str | None = None,
    unscored: Sequence[int] = (),
    function: str | None = None,
    is_reference: bool = False,
) -> Scores:
    """Return the scores of a method from its evaluations on one task.

    There is one evaluation per seed. `bases` are by seed. `metric` is the task's other metric, left
    out if not all seeds have it. The rest is as in `Scores`. Raises `ValueError` for no evaluations
    and for evaluations on different numbers of items.
    """
    totals = {one.total for one in evaluations}
    if len(totals) != 1:
        raise ValueError(
            f"{method} was scored on {sorted(totals)} items; give evaluations of one set of items."
        )
    ordered = sorted(evaluations, key=lambda one: one.seed)
    values = () if metric is None else [measured_metric(metric, one) for one in ordered]
    measured = tuple(value for value in values if value is not None)
    if len(measured) < len(ordered):
        metric, measured = None, ()
    texts = [one.statistics_of(metric) for one in ordered]
    statistics = tuple(text for text in texts if text is not None)
    return Scores(
        method=method,
        budget=budget,
        parameters=parameters,
        trials=trials,
        seeds=tuple(one.seed for one in ordered),
        items=totals.pop(),
        outcomes=tuple(one.outcomes for one in ordered),
        bases=tuple(bases[one.seed] for one in ordered) if bases else (),
        majority=next((one.majority for one in ordered if one.majority is not None), None),
        metric=metric,
        measured=measured,
        statistics=statistics if len(statistics) == len(ordered) else (),
        signatures=() if metric is None else _signatures(metric, ordered),
        metric_floor=None if metric is None else _best_floor(metric, ordered),
        unscored=tuple(unscored),
        clusters=next((one.clusters for one in ordered if one.clusters), ()),
        function=function,
        is_reference=is_reference,
    )


def _signatures(name: str, evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    """Return the different signatures of a metric's values.

    What stands for seeds without a score has no task, and none.
    """
    signatures = {
        measure.signature or FIRST_VERSION
        for evaluation in evaluations
        if evaluation.task
        for measure in evaluation.measures
        if measure.metric == name
    }
    return tuple(sorted(signatures))


def _best_floor(name: str, evaluations: Sequence[Evaluation]) -> MetricFloor | None:
    """Return the best kind of floor, by its mean over evaluations."""
    values: dict[FloorKind, list[float]] = defaultdict(list)
    for measure in (one for evaluation in evaluations for one in evaluation.measures):
        if measure.metric == name and (floor := measure.floor) is not None:
            values[floor.kind].append(floor.value)
    means = (MetricFloor(value=fmean(of_kind), kind=kind) for kind, of_kind in values.items())
    return best_floor(METRICS.get(name), means)


def best_floor(metric: Metric, floors: Iterable[MetricFloor | None]) -> MetricFloor | None:
    """Return the best of some floors, None without any."""
    known = [floor for floor in floors if floor is not None]
    sign = -1 if metric.lower_is_better else 1
    return max(known, key=lambda one: sign * one.value, default=None)


def nothing_right(seed: int, items: int, metric: str | None = None) -> Evaluation:
    """Return what stands for a seed without a score: no item is right.

    Its `metric` has the worst value.
    """
    worst = () if metric is None else (Measure(metric=metric, value=METRICS.get(metric).worst),)
    return Evaluation(
        replicate=seed,
        seed=seed,
        task={},
        split="test",
        correct=0,
        total=items,
        outcomes="00" * ((items + 7) // 8),
        measures=worst,
    )


def measured_metric(name: str, evaluation: Evaluation) -> float | None:
    """Return a task's other metric on the items of an evaluation.

    None if it was not measured, as by earlier versions.
    """
    if (metric := metric_named(name)) is None:
        return None
    kept = {measure.metric: measure.value for measure in evaluation.measures}
    counts = evaluation.confusion and evaluation.confusion.counts
    return metric.known(kept, evaluation.task, counts, evaluation.loss)


def guessing_accuracy(chance: float, majorities: Iterable[float | None]) -> float:
    """Return the accuracy on some items that needs no skill.

    It is the task's `chance` or, if that is more, the share of the most common label among the
    items, of which `majorities` has one figure per scoring, None if unknown. Of 50 items, more may
    have that label than in the whole dataset.
    """
    return max((chance, *(share for share in majorities if share is not None)))
