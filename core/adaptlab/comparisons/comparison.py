"""The comparison of methods on one task: scores, the best set and pairs."""

import functools
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from adaptlab.comparisons.comparability import SettingDifference, signature_difference
from adaptlab.comparisons.comparison_warnings import ComparisonWarning, comparison_warnings
from adaptlab.comparisons.method_classes import Standing, standing_of
from adaptlab.comparisons.metric_order import MetricOrder, metric_order, own_sample
from adaptlab.comparisons.row_pairs import can_pair, comparable_pairs
from adaptlab.comparisons.verdict import LEAST_SEEDS, Shown, Verdict, verdicts
from adaptlab.comparisons.verdict_sentence import (
    CellFinding,
    cell_sentence,
    comparison_sentence,
    named_best,
)
from adaptlab.plugins.sizing import PARAMETERS, BudgetAxis
from adaptlab.statistics.best_set import BestSet, of_leaders
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
from adaptlab.statistics.failing import FailingSeeds, Floor, failing_by, failing_of, floor_of
from adaptlab.statistics.intervals import Interval, mean_interval, unseen_failure_rate
from adaptlab.statistics.leads import ERROR, lead
from adaptlab.statistics.more_seeds import more_seeds
from adaptlab.statistics.pairs import PairedDifference, paired_difference
from adaptlab.statistics.ranks import RankInterval, rank_intervals
from adaptlab.statistics.scores import Scores
from adaptlab.values import Value

NO_ANSWERS: Mapping[int, str] = MappingProxyType({})


class ComparisonRow(Value):
    """One method in a cell: score, failing seeds, standing and effort.

    `against_best` is the difference from the leader of the best set, None for the leader itself,
    for rows on other items and in a voided comparison. Its limits agree with the best set: those of
    a row in the set contain 0, and those of a row that the leader beats end there. `is_candidate`
    is false for a reference beyond the budget. `same_as` is the row that computes the same function
    and counts for both. `rank` is the range of ranks that the ordered pairs leave.
    """

    method: str
    label: str
    budget: int | None
    parameters: int | None
    trials: int | None
    items: int
    score: Interval
    failing: FailingSeeds
    standing: Standing
    rank: RankInterval
    is_candidate: bool = True
    same_as: str | None = None
    could_be_best: bool
    against_best: PairedDifference | None = None


class ComparisonCell(Value):
    """The methods at one budget, and those that take no budget.

    Rows keep the order of the input. `best` lists the labels of the methods that may be the best
    for the next seed: it contains the best with 95 %. `leader` is the one of them with the highest
    typical score. `more_seeds` is the number of further seeds of each after which four of five such
    studies have a single best method; None if that is beyond 64 seeds or nothing is open. A table
    about another metric than accuracy has its order in `by_metric`, and `best` is by that metric.
    If one method is the best, `chosen` is its score, corrected for having been chosen. In a voided
    comparison there are no verdicts and no best method.
    """

    budget: int | None
    rows: tuple[ComparisonRow, ...]
    best: tuple[str, ...]
    leader: str | None
    more_seeds: int | None
    chosen: ChosenBest | None
    verdicts: tuple[Verdict, ...]
    by_metric: MetricOrder | None = None
    sentence: str


class Comparison(Value):
    """The findings about methods and budgets on one task.

    `axis` is what the budgets limit. `comparisons` is the number of pairs for which p-values are
    corrected. `unseen_failure_rate` is the share of seeds that may fail although none of this
    number of seeds did. `chance` is the accuracy of the `floor`, and a seed of any row fails if it
    is below `failing_below`. If `voided`, the settings differ so that the scores answer different
    questions, and nothing is concluded. `sentence` is the whole finding.
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
    floor: Floor | None = None
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
    differences: Sequence[SettingDifference] = (),
    chance: float = 0.0,
    alone: float | None = None,
    constant: float = 0.0,
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
        differences: the result of `comparability`.
        chance: the accuracy of guessing on the task.
        alone: the mean accuracy of the base model alone on the scored items, None if unknown.
        constant: the accuracy of the best constant answer to the task, 0 if unknown.
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
    if (signatures := signature_difference(rows)) is not None:
        differences = (signatures, *differences)
    floor = floor_of(chance, (row.majority for row in rows), alone, constant)
    voided = any(difference.weight == "voids" for difference in differences)
    table = _Table(rows, floor, level, margin, voided=voided, is_silent=voided or bool(answers))
    kinds = [warning.kind for warning in of_bases]
    seeds = min(len(row.trained) for row in rows)
    cells = tuple(
        _answered(_Cell(table, budget).found(kinds.count("base_not_learned")), answers)
        for budget in _budgets(rows)
    )
    # Crossings and the cheapest method are about right items, so another metric has none.
    is_without = table.is_silent or any(cell.by_metric is not None for cell in cells)
    return Comparison(
        task=task,
        axis=axis,
        level=level,
        margin=margin,
        false_better=ERROR,
        comparisons=len(table.verdicts),
        seeds=seeds,
        unseen_failure_rate=unseen_failure_rate(seeds, level),
        chance=floor.accuracy,
        floor=floor,
        failing_below=floor.works_from(max(row.items for row in rows)),
        voided=voided,
        warnings=comparison_warnings(rows, differences, of_bases, chose_seeds=bool(answers)),
        differences=tuple(differences),
        cells=cells,
        curves=budget_curves(rows, table.interval),
        crossings=() if is_without else _all_crossings(rows, level, table.counting),
        cheapest=None if is_without else _cheapest(rows, reference, margin, level),
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


class _Table:
    """What all cells of a table share: counts, samples, pairs and the floor."""

    def __init__(
        self,
        rows: Sequence[Scores],
        floor: Floor,
        level: float,
        margin: float,
        *,
        voided: bool,
        is_silent: bool,
    ) -> None:
        self.rows = rows
        self.floor = floor
        self.level = level
        self.margin = margin
        self.voided = voided
        self.is_silent = is_silent
        self.counting = Remembered()
        self.samples = {row.label: own_sample(row, self.counting) for row in rows}
        self.lead = functools.cache(lead)
        self._intervals: dict[str, Interval] = {}
        self._pairs: dict[tuple[str, str, float], PairedDifference] = {}
        pairs = [] if is_silent else [self.pair(a, b) for a, b in comparable_pairs(rows)]
        self.verdicts = verdicts(pairs, margin, self._shown())

    def _shown(self) -> Shown:
        """Return the test of a pair's order within a cell of both."""
        sets: dict[str, BestSet] = {}
        everywhere = {row.label for row in self.rows if row.budget is None}
        for budget in _budgets(self.rows):
            here = [row.label for row in self.rows if _in_cell(row, budget)]
            own = BestSet({label: self.samples[label] for label in here}, leading=self.lead)
            sets |= {label: own for label in here if label not in sets}

        def shown(first: str, second: str) -> bool:
            # A row without a budget is in every cell, so the other one's cell has both.
            return sets[second if first in everywhere else first].beats(first, second)

        return shown

    def interval(self, row: Scores) -> Interval:
        """Return the interval of a row, computed once."""
        if row.label not in self._intervals:
            self._intervals[row.label] = mean_interval(row, self.level, self.counting)
        return self._intervals[row.label]

    def pair(self, first: Scores, second: Scores, level: float | None = None) -> PairedDifference:
        """Return the difference of two rows, computed once.

        Its limits are at the level of the table unless another one is given.
        """
        level = level or self.level
        key = (first.label, second.label, level)
        if key not in self._pairs:
            self._pairs[key] = paired_difference(
                first, second, level, lambda row: self.samples[row.label], first.metric
            )
        return self._pairs[key]

    def failing(self, row: Scores) -> FailingSeeds:
        """Return the failing seeds of a row."""
        accuracies = self.counting(row, row.trained).accuracies.tolist()
        return failing_of(row, accuracies, self.floor, self.level)


class _Cell:
    """The rows of one budget, with the set that contains the best."""

    def __init__(self, table: _Table, budget: int | None) -> None:
        self.table = table
        self.budget = budget
        self.rows = [row for row in table.rows if _in_cell(row, budget)]
        self.measured = _measured_alike(self.rows)
        self.same = _same_function(self.rows)
        eligible = [row for row in self.rows if self._is_eligible(row)]
        alone = [row for row in eligible if row.label not in self.same]
        samples = {row.label: table.samples[row.label] for row in self.measured}
        self.candidates = {row.label: samples[row.label] for row in alone if row.label in samples}
        self.set = BestSet(self.candidates, samples, table.lead)

    def _is_eligible(self, row: Scores) -> bool:
        """Return True unless the row is a reference beyond the budget."""
        is_beyond = self.budget is not None and (row.parameters or 0) > self.budget
        return not (row.is_reference and is_beyond)

    @cached_property
    def leader(self) -> str | None:
        """The method of the best set with the highest typical score."""
        return None if self.table.is_silent else self.set.leader

    @cached_property
    def order(self) -> MetricOrder | None:
        """The order by the task's metric; None without one."""
        if self.table.is_silent or not self.candidates or self.measured[0].metric is None:
            return None
        return metric_order(self.measured, self.set, self.table.samples, self.table.level)

    @cached_property
    def best(self) -> tuple[str, ...]:
        """The labels that may be the best, equal functions included."""
        if self.table.is_silent:
            return ()
        return tuple(
            row.label
            for row in self.rows
            if self._is_eligible(row) and self.same.get(row.label, row.label) in self.set.best
        )

    def found(self, unlearned_bases: int) -> ComparisonCell:
        """Return the cell with everything that is known of it."""
        labels = {row.label for row in self.rows}
        pairs = [v for v in self.table.verdicts if {v.pair.first, v.pair.second} <= labels]
        ranks = rank_intervals([*labels], [_order(one) for one in pairs if one.reason == "test"])
        rows = tuple(self._row(row, ranks[row.label]) for row in self.rows)
        more = self._more_seeds(rows)
        chosen = self._chosen(rows)
        sentence = cell_sentence(
            CellFinding(
                rows=rows,
                best=self.best,
                leader=self.leader,
                more_seeds=more,
                floor=self.table.floor,
                voided=self.table.voided,
                unlearned_bases=unlearned_bases,
                by_metric=self.order,
            )
        )
        return ComparisonCell(
            budget=self.budget,
            rows=rows,
            best=self.best,
            leader=self.leader,
            more_seeds=more,
            chosen=chosen,
            verdicts=tuple(pairs),
            by_metric=self.order,
            sentence=sentence,
        )

    def _row(self, row: Scores, rank: RankInterval) -> ComparisonRow:
        floor, best = self.order and self.order.floor, row.label in self.best
        failing = failing_by(row, floor, self.table.level) if floor else self.table.failing(row)
        is_candidate = self._is_eligible(row)
        return ComparisonRow(
            method=row.method,
            label=row.label,
            budget=row.budget,
            parameters=row.parameters,
            trials=row.trials,
            items=row.items,
            score=self.table.interval(row),
            failing=failing,
            standing=standing_of(
                failing, may_be_best=best or not is_candidate, voided=self.table.is_silent
            ),
            rank=rank,
            is_candidate=is_candidate,
            same_as=self.same.get(row.label),
            could_be_best=best,
            against_best=self._against_best(row),
        )

    @cached_property
    def _leading_row(self) -> Scores | None:
        return next((one for one in self.rows if one.label == self.leader), None)

    def _against_best(self, row: Scores) -> PairedDifference | None:
        leader = self._leading_row
        if leader is None or leader is row or not can_pair(row, leader):
            return None
        level = of_leaders(self.table.level, len(self.set.best))
        pair = self.table.pair(row, leader, level)
        if row.label in self.best:
            return pair.with_zero()
        return pair.up_to_zero() if self.set.beats(leader.label, row.label) else pair

    def _more_seeds(self, rows: Sequence[ComparisonRow]) -> int | None:
        """Return the seeds that should tell the open methods apart, if any can."""
        of_candidates = [row for row in rows if row.label in self.candidates]
        if self.table.is_silent or all(row.failing.ok == 0 for row in of_candidates):
            return None
        open_ones = [sample for label, sample in self.candidates.items() if label in self.best]
        return more_seeds(open_ones, self.set.tail) if len(open_ones) > 1 else None

    def _chosen(self, rows: Sequence[ComparisonRow]) -> ChosenBest | None:
        label = named_best(rows, self.best, self.leader)
        if label is None or self.order is not None:
            return None
        among = [row for row in self.rows if row.label in self.candidates]
        return corrected_choice(among, label, self.table.level, self.table.counting)


def _measured_alike(rows: Sequence[Scores]) -> list[Scores]:
    """Return the rows with the task's metric, all if there is none."""
    return [row for row in rows if row.metric is not None] or [*rows]


def _same_function(rows: Sequence[Scores]) -> dict[str, str]:
    """Return the row that counts for each row of an equal function."""
    first: dict[str, str] = {}
    return {
        row.label: first[row.function]
        for row in rows
        if row.function is not None and first.setdefault(row.function, row.label) != row.label
    }


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


def _order(verdict: Verdict) -> tuple[str, str]:
    """Return the better and the worse method of a pair with a decided order."""
    pair = verdict.pair
    return (pair.first, pair.second) if pair.difference > 0 else (pair.second, pair.first)


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
