"""Gain against retention at one budget, with dominated methods.

It is written once, here; the command line, pages, bundles and the API render it.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from adaptlab.comparisons.comparison import Comparison, ComparisonCell, ComparisonRow
from adaptlab.comparisons.retention import OldTask
from adaptlab.comparisons.row_names import RowNames, row_titles
from adaptlab.comparisons.scores import task_labels
from adaptlab.figures import counted, limited_points, listed, points
from adaptlab.statistics.frontier import Position, Region, domination, joint_region
from adaptlab.statistics.leads import ERROR
from adaptlab.statistics.pairs import holm
from adaptlab.statistics.retention import pooled
from adaptlab.statistics.samples import Sample, residual_of
from adaptlab.statistics.spread import spread
from adaptlab.statistics.typical import typical_limits
from adaptlab.values import Value


class SeedPosition(Value):
    """The gain and the retention of one seed."""

    seed: int
    gain: float
    retention: float


class Domination(Value):
    """A method that is dominated: no better on either axis, worse on one.

    `p_value` is corrected for all ordered pairs of the table (Holm).
    """

    label: str
    by: str
    gain: float
    retention: float
    p_value: float
    text: str


class FrontierRow(Value):
    """A method's gain on the new task and its retention of old ones.

    `gain` is the share of test items that are right with the adaptation and were not without, as a
    difference of shares; `retention` is the mean over the old tasks. Limits are those of a typical
    seed on new items. `region` is their joint region at the same level, None below four seeds.
    """

    label: str
    title: str
    gain: float
    gain_low: float
    gain_high: float
    retention: float
    retention_low: float
    retention_high: float
    seeds: tuple[SeedPosition, ...]
    region: Region | None
    dominated_by: tuple[str, ...] = ()


class Frontier(Value):
    """Gain against retention of the methods of one cell.

    `tasks` are the old tasks whose base clears its floor; retention is the mean over them. `margin`
    is the difference on either axis below which methods count as alike, and `comparisons` the
    number of ordered pairs. Methods that are not dominated are not ranked: which of them is better
    depends on what retention is worth.
    """

    budget: int | None
    level: float
    margin: float
    tasks: tuple[str, ...]
    comparisons: int
    rows: tuple[FrontierRow, ...]
    dominated: tuple[Domination, ...]
    sentence: str


@dataclass(frozen=True, eq=False)
class PlacedRow:
    """The scores of a row on the new task and on old ones, adapted and alone."""

    new: OldTask
    old: Sequence[OldTask]


def frontier(
    comparison: Comparison, cell: ComparisonCell, measured: Mapping[str, PlacedRow]
) -> Frontier | None:
    """Return gain against retention of one cell.

    Args:
        comparison: the table, for its level and margin.
        cell: one of its cells.
        measured: the scores by label of the row.

    None if no old task was measured for any two rows, or the settings differ.
    """
    rows = [row for row in cell.rows if row.label in measured]
    tasks = _shared_tasks([measured[row.label] for row in rows])
    if comparison.voided or len(rows) < 2 or not tasks:
        return None
    placed = {row.label: _position(measured[row.label], tasks) for row in rows}
    positions = {label: position for label, (_, position) in placed.items()}
    dominated, number = _dominated(rows, positions, comparison.margin)
    titles = row_titles([row.method for row in cell.rows])
    return Frontier(
        budget=cell.budget,
        level=comparison.level,
        margin=comparison.margin,
        tasks=tuple(task_labels([*tasks])),
        comparisons=number,
        rows=tuple(
            _row(row, titles[row.method], *placed[row.label], comparison.level, dominated)
            for row in rows
        ),
        dominated=dominated,
        sentence=_sentence(rows, dominated),
    )


def _shared_tasks(measured: Sequence[PlacedRow]) -> list[Mapping[str, object]]:
    """Return the old tasks that every row has, and that every base can do."""
    by_row = [[task.task for task in row.old if _is_measured(task)] for row in measured]
    first = by_row[0] if by_row else []
    return [task for task in first if all(task in tasks for tasks in by_row)]


def _is_measured(task: OldTask) -> bool:
    floor = task.floor()
    return floor is not None and task.refusal(floor) is None


def _position(
    row: PlacedRow, tasks: Sequence[Mapping[str, object]]
) -> tuple[tuple[int, ...], Position]:
    """Return the seeds that were scored on all tasks, and their position."""
    old = [one for one in row.old if one.task in tasks]
    seeds = [seed for seed in row.new.seeds if all(seed in one.seeds for one in old)]
    retention = pooled([_retained(one.of_seeds(seeds)) for one in old])
    return tuple(seeds), Position(gain=_gain(row.new.of_seeds(seeds)), retention=retention)


def _retained(task: OldTask) -> Sample:
    floor = task.floor()
    assert floor is not None, "a task that is not installed is not measured"
    return task.sample(floor)


def _gain(task: OldTask) -> Sample:
    attached, base = task.units()
    gains = attached - base
    return Sample(
        values=gains.mean(axis=1),
        by_unit=gains.mean(axis=0),
        residual=residual_of(spread(gains)),
        items=task.items,
    )


def _dominated(
    rows: Sequence[ComparisonRow], positions: Mapping[str, Position], margin: float
) -> tuple[tuple[Domination, ...], int]:
    """Return the dominated methods, with the number of ordered pairs."""
    labels = [row.label for row in rows if row.is_candidate and row.same_as is None]
    pairs = [*itertools.permutations(labels, 2)]
    values = [domination(positions[by], positions[label], margin) for label, by in pairs]
    names = RowNames(rows)
    found = [
        _domination(names, label, by, positions, value, len(pairs))
        for (label, by), value in zip(pairs, holm(values), strict=True)
        if value <= ERROR
    ]
    return tuple(found), len(pairs)


def _domination(
    names: RowNames,
    label: str,
    by: str,
    positions: Mapping[str, Position],
    value: float,
    pairs: int,
) -> Domination:
    ours, theirs = positions[label], positions[by]
    gain = ours.gain.mean - theirs.gain.mean
    retention = ours.retention.mean - theirs.retention.mean
    text = (
        f"{names.of(label)} is dominated by {names.of(by)}: {points(gain)} points of gain and "
        f"{points(retention)} of retention (p = {value:.2g}, corrected for "
        f"{counted(pairs, 'comparison')})."
    )
    return Domination(
        label=label,
        by=by,
        gain=gain,
        retention=retention,
        p_value=value,
        text=names.starting(text, label),
    )


def _row(
    row: ComparisonRow,
    title: str,
    seeds: tuple[int, ...],
    position: Position,
    level: float,
    dominated: Sequence[Domination],
) -> FrontierRow:
    gain, retention = position.gain, position.retention
    gain_low, gain_high = typical_limits(gain.values, gain.of_items, gain.units, level)
    low, high = typical_limits(retention.values, retention.of_items, retention.units, level)
    values = np.stack([gain.values, retention.values], axis=1).tolist()
    return FrontierRow(
        label=row.label,
        title=title,
        gain=gain.mean,
        gain_low=max(-1.0, gain_low),
        gain_high=min(1.0, gain_high),
        retention=retention.mean,
        retention_low=low,
        retention_high=high,
        seeds=tuple(
            SeedPosition(seed=seed, gain=one, retention=other)
            for seed, (one, other) in zip(seeds, values, strict=True)
        ),
        region=joint_region(position, level),
        dominated_by=tuple(one.by for one in dominated if one.label == row.label),
    )


def _sentence(rows: Sequence[ComparisonRow], dominated: Sequence[Domination]) -> str:
    """Return the finding; methods that are not dominated have no winner."""
    worse = {one.label for one in dominated}
    names = RowNames(rows)
    left = [names.of(row.label) for row in rows if row.is_candidate and row.label not in worse]
    if not dominated:
        return (
            "No method is shown to be dominated: which one is better depends on what retention is "
            "worth."
        )
    said = " ".join(one.text for one in dominated)
    if len(left) == 1:
        return f"{said} Only {left[0]} is not dominated."
    return f"{said} Not dominated: {listed(left)}."


def frontier_lines(found: Frontier) -> Iterator[str]:
    """Yield gain against retention as lines of text."""
    yield found.sentence
    yield f"Retention of {listed(found.tasks)}; gain in points of right items."
    for row in found.rows:
        gain = limited_points(row.gain, row.gain_low, row.gain_high)
        yield f"{row.title}: gain {gain}, retention {retained_text(row)}"


def retained_text(row: FrontierRow) -> str:
    """Return a retention with its limits in per cent: "93.1 % (90 to 96)"."""
    low, high = (f"{100 * end:.0f}" for end in (row.retention_low, row.retention_high))
    return f"{100 * row.retention:.1f} % ({low} to {high})"
