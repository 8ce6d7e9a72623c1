"""The comparison of methods on one task: scores, ranks and verdicts."""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from adaptlab.comparisons.comparability import SettingDifference
from adaptlab.comparisons.comparison_warnings import ComparisonWarning, comparison_warnings
from adaptlab.comparisons.metric_order import (
    MetricOrder,
    MetricPair,
    Rule,
    metric_order,
    metric_pairs,
)
from adaptlab.comparisons.row_pairs import can_pair, comparable_pairs
from adaptlab.comparisons.verdict import FALSE_BETTER, LEAST_SEEDS, SeedOutcomes, Verdict, verdicts
from adaptlab.comparisons.verdict_sentence import cell_sentence, comparison_sentence, named_best
from adaptlab.plugins.sizing import PARAMETERS, BudgetAxis
from adaptlab.statistics.choice import ChosenBest, chosen_best
from adaptlab.statistics.counts import Counting, Remembered, counts
from adaptlab.statistics.curves import (
    BudgetCurve,
    Cheapest,
    Crossing,
    budget_curves,
    cheapest_within,
    crossings,
)
from adaptlab.statistics.failing import (
    FailingSeeds,
    failing_below,
    failing_seeds,
    successful,
)
from adaptlab.statistics.intervals import Interval, mean_interval, unseen_failure_rate
from adaptlab.statistics.pairs import PairedDifference, paired_difference, shared_seeds
from adaptlab.statistics.ranks import RankInterval, could_be_best, rank_intervals
from adaptlab.statistics.scores import Scores, guessing_accuracy
from adaptlab.values import Value

BY_RIGHT_ITEMS = "By right items:"
NO_ANSWERS: Mapping[int, str] = MappingProxyType({})


class ComparisonRow(Value):
    """One method in a cell: score, failing seeds, ranks and effort.

    `rank` and `could_be_best` are about the mean over all seeds.
    """

    method: str
    label: str
    budget: int | None
    parameters: int | None
    trials: int | None
    items: int
    score: Interval
    failing: FailingSeeds
    rank: RankInterval
    could_be_best: bool


class ComparisonCell(Value):
    """The methods at one budget, and those that take no budget.

    Rows keep the order of the input. `best` lists the labels of all rows that could be best over
    all seeds. `best_successful` lists those that could be best among seeds that do not fail: they
    have a successful seed and are not found worse there. `sentence` states what works, what does
    not and what is not known; of a task with another metric, the order by that comes first, which
    `by_metric` has in full. If it names one method the best, `chosen` is that method's score,
    corrected for having been chosen as the best of the cell. In a voided comparison there are no
    verdicts and no best method, and every rank is possible.
    """

    budget: int | None
    rows: tuple[ComparisonRow, ...]
    best: tuple[str, ...]
    best_successful: tuple[str, ...]
    chosen: ChosenBest | None
    verdicts: tuple[Verdict, ...]
    by_metric: MetricOrder | None = None
    sentence: str


class Comparison(Value):
    """The findings about methods and budgets on one task.

    `axis` is what the budgets limit. `comparisons` is the number of pairs for which p-values are
    corrected. `unseen_failure_rate` is the share of seeds that may fail although none of this
    number of seeds did. A seed of any row fails if it is below `failing_below`: half way from
    `chance`, the accuracy of guessing or of always giving the items' most common label, to the
    median seed of the best row, and at least 10 % of the way from chance to 1. If `voided`, the
    settings differ so that the scores answer different questions, and nothing is concluded.
    `sentence` is the whole finding.
    """

    task: str
    axis: BudgetAxis = PARAMETERS
    level: float
    margin: float
    false_better: float
    comparisons: int
    seeds: int
    unseen_failure_rate: float
    chance: float
    failing_below: float
    voided: bool
    warnings: tuple[ComparisonWarning, ...]
    differences: tuple[SettingDifference, ...]
    cells: tuple[ComparisonCell, ...]
    curves: tuple[BudgetCurve, ...]
    crossings: tuple[Crossing, ...]
    cheapest: Cheapest | None
    sentence: str


def compare(
    task: str,
    rows: Sequence[Scores],
    *,
    axis: BudgetAxis = PARAMETERS,
    reference: str | None = None,
    margin: float = 0.01,
    level: float = 0.95,
    tables: int = 1,
    differences: Sequence[SettingDifference] = (),
    chance: float = 0.0,
    of_bases: Sequence[ComparisonWarning] = (),
    answers: Mapping[int, str] = NO_ANSWERS,
) -> Comparison:
    """Return the comparison of methods at their budgets on one task.

    Args:
        task: the name of the task.
        rows: the scores of the methods.
        axis: what the budgets of the rows limit.
        reference: the method against which the cheapest one is measured, usually full fine-tuning.
        margin: the difference, as a share of items, below which methods count as alike.
        level: the confidence of the intervals.
        tables: the number of tasks in the study, among which the 5 % of tables with a false
            "better" are divided.
        differences: the result of `comparability`.
        chance: the accuracy of guessing on the task. The gain of a seed is measured above it, or
            above the majority of the scored items if that is more (`guessing_accuracy`).
        of_bases: warnings about the base models.
        answers: by budget, the answers of a study that chose its own seeds. The tests here assume a
            number of seeds that was fixed before, so they give no verdicts then, and the answers
            are the finding.

    Raises:
        ValueError: there are no rows, or a method occurs twice at one budget.
    """
    if not rows:
        raise ValueError(
            f"There are no scores on {task}. Wait until a job has been evaluated on it."
        )
    _refuse_twins(rows)
    false_better = FALSE_BETTER / max(1, tables)
    counting = Remembered()
    intervals = {(row.method, row.budget): mean_interval(row, level, counting) for row in rows}

    def interval(row: Scores) -> Interval:
        return intervals[row.method, row.budget]

    voided = any(difference.weight == "voids" for difference in differences)
    chance = guessing_accuracy(chance, (row.majority for row in rows))
    below = failing_below(rows, chance, counting)
    kinds = [warning.kind for warning in of_bases]
    unlearned, works = kinds.count("base_not_learned"), "base_works_alone" in kinds
    parts = _Parts(level, chance, below, counting, unlearned, base_works=works)
    silent = voided or bool(answers)
    pair_verdicts = () if silent else _verdicts(rows, parts, margin, false_better)
    by_metric = () if silent else metric_pairs(rows, Rule(level, margin, false_better))
    seeds = min(len(row.seeds) for row in rows)
    cells = tuple(
        _answered(
            _cell(budget, rows, pair_verdicts, by_metric, interval, parts, voided=silent), answers
        )
        for budget in _budgets(rows)
    )
    return Comparison(
        task=task,
        axis=axis,
        level=level,
        margin=margin,
        false_better=false_better,
        comparisons=len(pair_verdicts),
        seeds=seeds,
        unseen_failure_rate=unseen_failure_rate(seeds, level),
        chance=chance,
        failing_below=below,
        voided=voided,
        warnings=comparison_warnings(rows, differences, of_bases, chose_seeds=bool(answers)),
        differences=tuple(differences),
        cells=cells,
        curves=budget_curves(rows, interval),
        crossings=() if silent else _all_crossings(rows, level, counting),
        cheapest=None if silent else _cheapest(rows, reference, margin, level),
        sentence=comparison_sentence([(cell.budget, cell.sentence) for cell in cells], axis),
    )


def _answered(cell: ComparisonCell, answers: Mapping[int, str]) -> ComparisonCell:
    """Return a cell with the study's own answer as its finding, if any."""
    answer = None if cell.budget is None else answers.get(cell.budget)
    if answer is None and answers and cell.budget is None:
        answer = " ".join(dict.fromkeys(answers.values()))
    return cell if answer is None else cell.model_copy(update={"sentence": answer})


def corrected_choice(
    rows: Sequence[Scores], label: str, level: float = 0.95, counting: Counting = counts
) -> ChosenBest | None:
    """Return the score of row `label`, corrected for its choice as best.

    Candidates are the rows with as many items and with as many seeds, or at least three. Returns
    None if another candidate has a higher mean.
    """
    best = next(row for row in rows if row.label == label)
    enough = min(LEAST_SEEDS, len(best.seeds))
    candidates = [row for row in rows if row.items == best.items and len(row.seeds) >= enough]
    chosen = chosen_best(candidates, level, counting)
    return chosen if chosen.label == label else None


@dataclass(frozen=True, slots=True)
class _Parts:
    """The rule of failing seeds, counts and bases, shared by all pairs."""

    level: float
    chance: float
    below: float
    counting: Counting
    unlearned_bases: int
    base_works: bool

    def successful(self, row: Scores) -> tuple[int, ...]:
        return successful(row, self.below, self.counting)

    def failing(self, row: Scores) -> FailingSeeds:
        seeds = len(row.seeds)
        return failing_seeds(seeds - len(self.successful(row)), seeds, self.level)


def _verdicts(
    rows: Sequence[Scores], parts: _Parts, margin: float, false_better: float
) -> tuple[Verdict, ...]:
    pairs = comparable_pairs(rows)
    differences = [paired_difference(a, b, parts.level, parts.counting) for a, b in pairs]
    outcomes = [
        _outcome(first, second, difference, parts)
        for (first, second), difference in zip(pairs, differences, strict=True)
    ]
    return verdicts(differences, margin, false_better, outcomes)


def _outcome(first: Scores, second: Scores, pair: PairedDifference, parts: _Parts) -> SeedOutcomes:
    """Return the failing seeds of a pair, and the pair without them."""
    shared = shared_seeds(first, second)
    theirs = parts.successful(second)
    both = tuple(seed for seed in parts.successful(first) if seed in theirs)
    among: PairedDifference | None = pair if both == shared else None
    if both and among is None:
        among = paired_difference(first, second, parts.level, parts.counting, seeds=both)
    return SeedOutcomes(parts.failing(first), parts.failing(second), among)


def _refuse_twins(rows: Sequence[Scores]) -> None:
    for (method, budget), count in Counter((row.method, row.budget) for row in rows).items():
        if count > 1:
            raise ValueError(
                f"{method} at budget {budget} occurs {count} times. Give each row its own name."
            )


def _budgets(rows: Sequence[Scores]) -> list[int | None]:
    """Return the budgets of the rows; a table without any is one cell."""
    budgets = sorted({row.budget for row in rows if row.budget is not None})
    return [*budgets] or [None]


def _in_cell(row: Scores, budget: int | None) -> bool:
    return row.budget is None or row.budget == budget


def _cell(
    budget: int | None,
    rows: Sequence[Scores],
    pair_verdicts: Sequence[Verdict],
    by_metric: Sequence[MetricPair],
    interval: Callable[[Scores], Interval],
    parts: _Parts,
    *,
    voided: bool,
) -> ComparisonCell:
    here = [row for row in rows if _in_cell(row, budget)]
    labels = dict.fromkeys(row.label for row in here)
    ours = [one for one in pair_verdicts if one.pair.first in labels and one.pair.second in labels]
    ranks = rank_intervals([*labels], [_order(one) for one in ours if one.reason == "test"])
    best = () if voided else could_be_best(ranks)
    best_successful = () if voided else _best_successful(here, ours, parts)
    failing = {row.label: parts.failing(row) for row in here}
    table_rows = tuple(
        _row(row, interval(row), failing[row.label], ranks[row.label], best=row.label in best)
        for row in here
    )
    chosen = None
    if (label := named_best(table_rows, best)) is not None:
        chosen = corrected_choice(here, label, parts.level, parts.counting)
    order = metric_order(here, table_rows, by_metric)
    sentence = cell_sentence(
        table_rows,
        ours,
        best,
        chosen=chosen,
        chance=parts.chance,
        voided=voided,
        unlearned_bases=parts.unlearned_bases,
        base_works=parts.base_works,
    )
    return ComparisonCell(
        budget=budget,
        rows=table_rows,
        best=best,
        best_successful=best_successful,
        chosen=chosen,
        verdicts=tuple(ours),
        by_metric=order,
        sentence=sentence if order is None else f"{order.sentence} {BY_RIGHT_ITEMS} {sentence}",
    )


def _best_successful(
    rows: Sequence[Scores], pair_verdicts: Sequence[Verdict], parts: _Parts
) -> tuple[str, ...]:
    """Return the rows that could be best among seeds that do not fail.

    They have a successful seed and are not found worse there.
    """
    worse = {
        one.pair.second if one.successful.finding == "better" else one.pair.first
        for one in pair_verdicts
        if one.successful is not None and one.successful.finding in ("better", "worse")
    }
    working = [row.label for row in rows if parts.successful(row)]
    return tuple(label for label in working if label not in worse) or tuple(working)


def _order(verdict: Verdict) -> tuple[str, str]:
    """Return the better and the worse method of a pair with a decided order."""
    pair = verdict.pair
    return (pair.first, pair.second) if pair.difference > 0 else (pair.second, pair.first)


def _row(
    row: Scores, score: Interval, failing: FailingSeeds, rank: RankInterval, *, best: bool
) -> ComparisonRow:
    return ComparisonRow(
        method=row.method,
        label=row.label,
        budget=row.budget,
        parameters=row.parameters,
        trials=row.trials,
        items=row.items,
        score=score,
        failing=failing,
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
    references = [row for row in rows if row.method == reference]
    if len(references) != 1:
        return None
    others = [row for row in rows if row.method != reference and can_pair(row, references[0])]
    return cheapest_within(others, references[0], margin, level)
