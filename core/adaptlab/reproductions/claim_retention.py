"""Findings on retention and drift, as study pages measure them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adaptlab.comparisons.drift import neutral_texts
from adaptlab.comparisons.retention import old_tasks
from adaptlab.figures import counted, percent
from adaptlab.reproductions.claim import DriftsLess, RetainsMore
from adaptlab.reproductions.claim_findings import (
    Decision,
    decision,
    few_seeds,
    interval_name,
    is_shown,
    level_of,
    not_measured,
    undecided,
    unmeasured_seeds,
    unseen_seeds,
)
from adaptlab.reproductions.recipe import Recipe
from adaptlab.reproductions.recipe_results import (
    Missing,
    RecipeMeasurements,
    RecipeRow,
    because,
    row_of,
)
from adaptlab.statistics.samples import Sample, item_variance, shifted
from adaptlab.statistics.typical import typical_limits

OrderTest = RetainsMore | DriftsLess


@dataclass(frozen=True, eq=False)
class _Placed:
    """A row with what it retains, or how far it drifts, by seed."""

    row: RecipeRow
    seeds: tuple[int, ...]
    sample: Sample
    refusals: tuple[str, ...] = ()


def decide_retention(test: OrderTest, recipe: Recipe, measured: RecipeMeasurements) -> Decision:
    """Return the finding of a claimed order in retention or drift.

    It is decided by the tests of a lead, as the axes of gain against retention are.
    """
    first = _placed(test, test.row, recipe, measured)
    second = _placed(test, test.other, recipe, measured)
    if isinstance(first, Missing):
        return not_measured(first.text)
    if isinstance(second, Missing):
        return not_measured(second.text)
    shared = sorted(set(first.seeds) & set(second.seeds))
    if not shared or first.sample.items != second.sample.items:
        why = "different numbers of items" if shared else "no seed in common"
        return undecided(f"{test.row} and {test.other} have {why}, so they cannot be paired")
    level = level_of(first.row, second.row)
    better, worse = (first, second) if isinstance(test, RetainsMore) else (second, first)
    ahead, behind = shifted(better.sample, -test.by), worse.sample
    doubts = [
        *few_seeds(len(shared)),
        *(one for place in (first, second) for one in place.refusals),
        *(one for place in (first, second) for one in unmeasured_seeds(place.row, place.seeds)),
    ]
    return decision(
        _text(test, better, worse, shared, level),
        holds=is_shown(ahead, behind, level),
        fails=is_shown(behind, ahead, level),
        doubts=doubts,
        is_reversed=is_shown(behind, better.sample, level),
    )


def _placed(
    test: OrderTest, label: str, recipe: Recipe, measured: RecipeMeasurements
) -> _Placed | Missing:
    """Return the row's measurements on the task of the column."""
    row, column = row_of(recipe, measured, label), recipe.column(label, test.column)
    if isinstance(row, Missing):
        return row
    kept = _retained if isinstance(test, RetainsMore) else _drifted
    matches = [place for task, place in kept(row) if column.shows(task)]
    if len(matches) > 1:
        return Missing(f"{label} has scores on {len(matches)} tasks that match {test.column}")
    what = "retention" if isinstance(test, RetainsMore) else "drift"
    why = because(row.missing)
    return matches[0] if matches else Missing(f"{label} has no {what} on {test.column} yet{why}")


def _retained(row: RecipeRow) -> Iterator[tuple[dict[str, object], _Placed]]:
    for task in old_tasks(row.watched, row.task):
        if (floor := task.floor()) is None:
            continue
        refusal = task.refusal(floor)
        if refusal is None:
            yield {**task.task}, _Placed(row, task.seeds, task.sample(floor))
        else:
            nothing = Sample(np.zeros(len(task.seeds)), np.zeros(0), 0.0, task.items)
            yield {**task.task}, _Placed(row, task.seeds, nothing, (refusal.rstrip("."),))


def _drifted(row: RecipeRow) -> Iterator[tuple[dict[str, object], _Placed]]:
    for text in neutral_texts(row.watched):
        yield {**text.task}, _Placed(row, text.seeds, text.kl())


def _text(test: OrderTest, better: _Placed, worse: _Placed, shared: list[int], level: float) -> str:
    """Return the figures behind a finding: both means and the difference."""
    values = _of_seeds(better, shared) - _of_seeds(worse, shared)
    sample = better.sample
    items = item_variance(sample, worse.sample)
    low, high = typical_limits(values, items, sample.units, level)
    over = f"{counted(len(shared), 'seed')}, {sample.items:,} items each"
    within = f"for a typical seed; {over}; {unseen_seeds(len(shared))}"
    if isinstance(test, DriftsLess):
        return (
            f"{test.row} drifts by {worse.sample.mean:.3g} nats per token on {test.column} and "
            f"{test.other} by {better.sample.mean:.3g}, {values.mean():.3g} more "
            f"({interval_name(level)} {low:.3g} to {high:.3g} {within}); claimed: more than "
            f"{test.by:.3g}"
        )
    return (
        f"{test.row} retains {percent(better.sample.mean)} of {test.column} and {test.other} "
        f"{percent(worse.sample.mean)}, a lead of {100 * values.mean():.1f} points "
        f"({interval_name(level)} {100 * low:.1f} to {100 * high:.1f} {within}); claimed: more "
        f"than {100 * test.by:.1f}"
    )


def _of_seeds(place: _Placed, seeds: list[int]) -> NDArray[np.float64]:
    where = [place.seeds.index(seed) for seed in seeds]
    return place.sample.values[where]
