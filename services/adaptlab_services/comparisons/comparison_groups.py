"""Tables of a comparison, and the grouping of jobs without a study."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from adaptlab.comparisons.report import SeenSeeds
from adaptlab.comparisons.scores import task_labels
from adaptlab.comparisons.table_comparison import MissingScores
from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.sizing import PARAMETERS, TOKENS, BudgetAxis
from adaptlab.specs.resolved import seedless_digest
from adaptlab.statistics import Scores
from adaptlab_services.comparisons.comparison_rows import ComparedRow
from adaptlab_services.results.scored_jobs import ScoredJob

MOST_PAIRS = 1_000
"""Limit on row pairs in a comparison of chosen jobs, at 0.5 ms per pair."""


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """The rows for one task and base model, and the cells without a row.

    `answers` are those of the study's question by budget, if it has one. `seen` is what the project
    saw of its methods in other jobs.
    """

    base_model: str
    task: str
    rows: tuple[ComparedRow, ...]
    skipped: tuple[MissingScores, ...] = ()
    axis: BudgetAxis = PARAMETERS
    answers: tuple[tuple[int, str], ...] = ()
    seen: tuple[SeenSeeds, ...] = ()

    def scores(self) -> tuple[Scores, ...]:
        """Return the scores of the rows that have any, if one was scored on items."""
        scored = [row.scores() for row in self.rows]
        items = next((one.items for one in scored if one is not None), None)
        every = (one or row.scores(items) for one, row in zip(scored, self.rows, strict=True))
        return tuple(one for one in every if one is not None)


def tables_of_jobs(jobs: Sequence[ScoredJob]) -> tuple[ComparedTable, ...]:
    """Return one table per task; raises `InvalidSpec` unless all jobs adapt.

    Different base models do not get tables of their own; a warning reports that they void the
    comparison.
    """
    _check(jobs)
    groups: dict[str, list[ScoredJob]] = defaultdict(list)
    for job in jobs:
        groups[json.dumps(job.spec.task, sort_keys=True)].append(job)
    labels = task_labels([group[0].spec.task or {} for group in groups.values()])
    return tuple(_table(label, group) for label, group in zip(labels, groups.values(), strict=True))


def check_pairs(tables: Sequence[ComparedTable]) -> None:
    """Raise `InvalidSpec` if there are more than `MOST_PAIRS` pairs of rows."""
    pairs = sum(map(_pairs, tables))
    if pairs <= MOST_PAIRS:
        return
    rows = sum(len(table.rows) for table in tables)
    detail = (
        f"These jobs form {rows} rows, which is {pairs:,} pairs to test. The limit is "
        f"{MOST_PAIRS:,} pairs, which 45 rows at one budget almost reach. Choose fewer jobs, or "
        "jobs of one budget. Jobs that differ only in their seeds count as one row."
    )
    raise InvalidSpec(Problem("/query/job", "too_many_pairs", detail))


def _pairs(table: ComparedTable) -> int:
    """Return the number of tested pairs.

    A row is compared with those of its budget and with those that have no budget.
    """
    counts = Counter(row.budget for row in table.rows)
    anywhere = counts.pop(None, 0)
    among = sum(math.comb(count, 2) for count in counts.values())
    return among + anywhere * counts.total() + math.comb(anywhere, 2)


def _check(jobs: Sequence[ScoredJob]) -> None:
    for job in jobs:
        if job.spec.kind != "adapt":
            detail = f"Job {job.id} is not an adaptation. Name jobs that adapt a base model."
            raise InvalidSpec(Problem("/query/job", "not_an_adaptation", detail))


def _table(label: str, jobs: Sequence[ScoredJob]) -> ComparedTable:
    groups: dict[str, list[ScoredJob]] = defaultdict(list)
    for job in jobs:
        groups[seedless_digest(job.spec)].append(job)
    bases = dict.fromkeys(str(job.spec.base_model) for job in jobs)
    axes = {job.spec.budget.axis for job in jobs if job.spec.budget.requested is not None}
    references = frozenset(name for name in METHODS.names() if METHODS.get(name).is_reference)
    rows = [_row(group, references, on_base=len(bases) > 1) for group in groups.values()]
    if len(axes) > 1:  # budgets that limit different things are no common ground
        rows = [replace(row, budget=None) for row in rows]
    axis: BudgetAxis = TOKENS if axes == {TOKENS} else PARAMETERS
    return ComparedTable(", ".join(bases), label, tuple(_distinct(rows)), axis=axis)


def _row(jobs: Sequence[ScoredJob], references: frozenset[str], *, on_base: bool) -> ComparedRow:
    spec = jobs[0].spec
    name = str((spec.method or {})["name"])
    label = name if spec.adapter is None else f"{name} (imported)"
    label = f"{label} on {spec.base_model}" if on_base else label
    if name in references:
        return ComparedRow(label, None, "reference", tuple(jobs))
    return ComparedRow(label, spec.budget.requested, "method", tuple(jobs))


def _distinct(rows: Sequence[ComparedRow]) -> Iterator[ComparedRow]:
    """Yield the rows with distinct labels.

    Rows with equal labels get the knobs in which they differ, otherwise the ids of their jobs.
    """
    for row in rows:
        namesakes = [other for other in rows if other.label == row.label]
        if len(namesakes) == 1:
            yield row
            continue
        labels = task_labels([other.jobs[0].spec.method or {} for other in namesakes])
        place = next(index for index, other in enumerate(namesakes) if other is row)
        knobs = labels[place].partition(" (")[2]
        if knobs and labels.count(labels[place]) == 1:
            yield replace(row, method=f"{row.method} ({knobs}")
        else:
            yield replace(row, method=f"{row.method} (job {str(row.jobs[0].id)[:8]})")
