"""All that can be said of the methods on one task: scores, ranks, verdicts, curves, warnings."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from adaptlab.comparability import SettingDifference
from adaptlab.statistics.counts import Counting, Remembered
from adaptlab.statistics.curves import (
    BudgetCurve,
    Cheapest,
    Crossing,
    budget_curves,
    cheapest_within,
    crossings,
)
from adaptlab.statistics.intervals import Interval, mean_interval, unseen_failure_rate
from adaptlab.statistics.pairs import paired_difference, shared_seeds
from adaptlab.statistics.ranks import RankInterval, could_be_best, rank_intervals
from adaptlab.statistics.scores import Scores
from adaptlab.values import Value
from adaptlab.verdict import FALSE_BETTER, LEAST_SEEDS, Verdict, verdicts

FEW_ITEMS = 100
"""Below so many test items the normal quantile that stands for them is too near."""

WarningKind = Literal[
    "not_comparable",
    "unequal_effort",
    "missing_seeds",
    "few_seeds",
    "shared_bases",
    "few_items",
    "unpaired",
]


class ComparisonWarning(Value):
    """Something that a reader must know before the table; `methods` are the rows it touches."""

    kind: WarningKind
    text: str
    methods: tuple[str, ...] = ()


class ComparisonRow(Value):
    """One method in a cell: its score with interval, its possible ranks, and its effort."""

    method: str
    label: str
    budget: int | None
    parameters: int | None
    trials: int | None
    items: int
    score: Interval
    rank: RankInterval
    could_be_best: bool


class ComparisonCell(Value):
    """The methods at one budget, with those that take none beside them.

    Rows stand in the order in which they were given; `best` names all that could be best.
    """

    budget: int | None
    rows: tuple[ComparisonRow, ...]
    best: tuple[str, ...]
    verdicts: tuple[Verdict, ...]


class Comparison(Value):
    """What scores on one task say of methods and budgets.

    `comparisons` is the number of pairs for which p-values are corrected, `unseen_failure_rate`
    the share of failing seeds that so few seeds may all have missed. `voided` says that settings
    differ in a way that makes the scores answers to different questions.
    """

    task: str
    level: float
    margin: float
    false_better: float
    comparisons: int
    seeds: int
    unseen_failure_rate: float
    voided: bool
    warnings: tuple[ComparisonWarning, ...]
    differences: tuple[SettingDifference, ...]
    cells: tuple[ComparisonCell, ...]
    curves: tuple[BudgetCurve, ...]
    crossings: tuple[Crossing, ...]
    cheapest: Cheapest | None


def compare(
    task: str,
    rows: Sequence[Scores],
    *,
    reference: str | None = None,
    margin: float = 0.01,
    level: float = 0.95,
    tables: int = 1,
    differences: Sequence[SettingDifference] = (),
) -> Comparison:
    """The comparison of `rows`, every method at every budget on `task`.

    `reference` names the method that the cheapest one is measured by, full fine-tuning as a rule;
    `tables` is the number of tasks in the study, over which the promise of at most 5 % with
    anything falsely called better is shared out; `differences` is what `comparability` found.
    Raises `ValueError` for no rows and for a method given twice at one budget.
    """
    if not rows:
        raise ValueError(f"There are no scores on {task}; wait for a job to be evaluated on it.")
    _refuse_twins(rows)
    false_better = FALSE_BETTER / max(1, tables)
    counting = Remembered()
    intervals = {(row.method, row.budget): mean_interval(row, level) for row in rows}

    def interval(row: Scores) -> Interval:
        return intervals[row.method, row.budget]

    pairs = [paired_difference(*two, level, counting) for two in _pairs(rows)]
    found = verdicts(pairs, margin, false_better)
    seeds = min(len(row.seeds) for row in rows)
    return Comparison(
        task=task,
        level=level,
        margin=margin,
        false_better=false_better,
        comparisons=len(found),
        seeds=seeds,
        unseen_failure_rate=unseen_failure_rate(seeds, level),
        voided=any(one.weight == "voids" for one in differences),
        warnings=_warnings(rows, differences),
        differences=tuple(differences),
        cells=tuple(_cell(budget, rows, found, interval) for budget in _budgets(rows)),
        curves=budget_curves(rows, interval),
        crossings=_all_crossings(rows, level, counting),
        cheapest=_cheapest(rows, reference, margin, level),
    )


def _refuse_twins(rows: Sequence[Scores]) -> None:
    for (method, budget), count in Counter((row.method, row.budget) for row in rows).items():
        if count > 1:
            raise ValueError(
                f"{method} at budget {budget} is there {count} times; give each row its own name."
            )


def _budgets(rows: Sequence[Scores]) -> list[int | None]:
    """The budgets that were asked for; a table without any is one cell."""
    found = sorted({row.budget for row in rows if row.budget is not None})
    return [*found] or [None]


def _in_cell(row: Scores, budget: int | None) -> bool:
    return row.budget is None or row.budget == budget


def _can_pair(first: Scores, second: Scores) -> bool:
    return first.items == second.items and bool(shared_seeds(first, second))


def _pairs(rows: Sequence[Scores]) -> list[tuple[Scores, Scores]]:
    """Every two rows that share a cell and can be paired, once."""
    return [
        (first, second)
        for first, second in itertools.combinations(rows, 2)
        if _same_cell(first, second) and _can_pair(first, second)
    ]


def _same_cell(first: Scores, second: Scores) -> bool:
    return None in (first.budget, second.budget) or first.budget == second.budget


def _cell(
    budget: int | None,
    rows: Sequence[Scores],
    found: Sequence[Verdict],
    interval: Callable[[Scores], Interval],
) -> ComparisonCell:
    here = [row for row in rows if _in_cell(row, budget)]
    labels = dict.fromkeys(row.label for row in here)
    ours = [one for one in found if one.pair.first in labels and one.pair.second in labels]
    ranks = rank_intervals([*labels], [_order(one) for one in ours if one.reason == "test"])
    best = could_be_best(ranks)
    return ComparisonCell(
        budget=budget,
        rows=tuple(
            _row(row, interval(row), ranks[row.label], best=row.label in best) for row in here
        ),
        best=best,
        verdicts=tuple(ours),
    )


def _order(verdict: Verdict) -> tuple[str, str]:
    """The better and the worse of a pair that was told apart."""
    pair = verdict.pair
    return (pair.first, pair.second) if pair.difference > 0 else (pair.second, pair.first)


def _row(row: Scores, score: Interval, rank: RankInterval, *, best: bool) -> ComparisonRow:
    return ComparisonRow(
        method=row.method,
        label=row.label,
        budget=row.budget,
        parameters=row.parameters,
        trials=row.trials,
        items=row.items,
        score=score,
        rank=rank,
        could_be_best=best,
    )


def _all_crossings(
    rows: Sequence[Scores], level: float, counting: Counting
) -> tuple[Crossing, ...]:
    methods = dict.fromkeys(row.method for row in rows if row.budget is not None)
    by_method = {name: [row for row in rows if row.method == name] for name in methods}
    return tuple(
        crossing
        for first, second in itertools.combinations(by_method.values(), 2)
        for crossing in crossings(first, second, level, counting)
    )


def _cheapest(
    rows: Sequence[Scores], reference: str | None, margin: float, level: float
) -> Cheapest | None:
    held = [row for row in rows if row.method == reference]
    if len(held) != 1:
        return None
    others = [row for row in rows if row.method != reference and _can_pair(row, held[0])]
    return cheapest_within(others, held[0], margin, level)


def _warnings(
    rows: Sequence[Scores], differences: Sequence[SettingDifference]
) -> tuple[ComparisonWarning, ...]:
    kinds: dict[str, WarningKind] = {"voids": "not_comparable", "effort": "unequal_effort"}
    found = [
        ComparisonWarning(
            kind=kinds[one.weight],
            text=one.text,
            methods=tuple(job for value in one.values for job in value.jobs),
        )
        for one in differences
        if one.weight in kinds
    ]
    named = {one.kind for one in found}
    if "unequal_effort" not in named:
        found += _unequal_effort(rows)
    return (*found, *_missing_seeds(rows), *_few(rows), *_shared_bases(rows), *_unpaired(rows))


def _unequal_effort(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    """Rows that train something with unequal numbers of trials."""
    tried = {row.label: row.trials for row in rows if row.trials and row.parameters != 0}
    if len(set(tried.values())) < 2:
        return []
    told = ", ".join(f"{label} {trials}" for label, trials in tried.items())
    text = f"The methods were not tuned with the same effort: trials a seed: {told}."
    return [ComparisonWarning(kind="unequal_effort", text=text, methods=tuple(tried))]


def _missing_seeds(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    every = sorted({seed for row in rows for seed in row.seeds})
    missing = {row.label: [seed for seed in every if seed not in row.seeds] for row in rows}
    return [
        ComparisonWarning(
            kind="missing_seeds",
            text=f"{label} lacks seeds {seeds}; pairs use the seeds that both have.",
            methods=(label,),
        )
        for label, seeds in missing.items()
        if seeds
    ]


def _few(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    found: list[ComparisonWarning] = []
    seeds = min(len(row.seeds) for row in rows)
    items = min(row.items for row in rows)
    if seeds < LEAST_SEEDS:
        text = f"The fewest seeds of a row are {seeds}; intervals are promised from {LEAST_SEEDS}."
        found.append(ComparisonWarning(kind="few_seeds", text=text))
    if items < FEW_ITEMS:
        text = f"There are {items} test items; intervals are promised from {FEW_ITEMS}."
        found.append(ComparisonWarning(kind="few_items", text=text))
    return found


def _shared_bases(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    """Seeds that start from the same weights say less than as many independent ones."""
    shared = [row for row in rows if len(set(row.bases)) < len(row.bases)]
    if not shared:
        return []
    bases, seeds = len(set(shared[0].bases)), len(shared[0].seeds)
    text = (
        f"{seeds} seeds start from {bases} replicates of the base model, so they are not "
        "independent and intervals are too narrow; pretrain the base with as many seeds."
    )
    return [
        ComparisonWarning(
            kind="shared_bases", text=text, methods=tuple(row.label for row in shared)
        )
    ]


def _unpaired(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    return [
        ComparisonWarning(
            kind="unpaired",
            text=f"{first.label} and {second.label} share no seeds, or were scored on unequal "
            f"numbers of items ({first.items} and {second.items}); nothing is said of the pair.",
            methods=(first.label, second.label),
        )
        for first, second in itertools.combinations(rows, 2)
        if _same_cell(first, second) and not _can_pair(first, second)
    ]
