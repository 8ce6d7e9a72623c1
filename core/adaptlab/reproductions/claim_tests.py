"""The finding of one test of a claim, from what was measured, with the figures behind it."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeVar

from adaptlab.comparisons.verdict import LEAST_SEEDS
from adaptlab.measurements.theory_report import Check
from adaptlab.reproductions.claim import (
    CheckHolds,
    ClaimTest,
    DeviationAtLeast,
    DeviationAtMost,
    EveryTrialAtMost,
    NoLarger,
    PlainTest,
    ScoreAbove,
    ScoreAtLeast,
    ScoreAtMost,
)
from adaptlab.reproductions.recipe import Recipe
from adaptlab.reproductions.recipe_results import (
    Measured,
    MeasuredCheck,
    MeasuredRow,
    Missing,
    TrialScore,
    because,
    row_of,
    scores_of_cell,
    stands_for,
)
from adaptlab.reproductions.rest import unrest
from adaptlab.reproductions.task_matching import agrees
from adaptlab.statistics import (
    Interval,
    Scores,
    mean_interval,
    paired_difference,
    seed_interval,
    unseen_failure_rate,
)
from adaptlab.values import Value
from adaptlab.wording import counted

LEVEL = 0.95
ClaimFinding = Literal["reproduced", "not_reproduced", "undecided", "not_measured"]
T = TypeVar("T", bound=ClaimTest)


class Decision(Value):
    """What is found of one test, and the sentence of figures that says why."""

    finding: ClaimFinding
    evidence: str


def decide_test(test: PlainTest, recipe: Recipe, measured: Measured) -> Decision:
    """The finding of one test; `not_measured` where a row that it names has no results."""
    match test:
        case ScoreAtMost() | ScoreAtLeast():
            return _score(test, recipe, measured)
        case ScoreAbove():
            return _above(test, recipe, measured)
        case EveryTrialAtMost():
            return _of_row(test.row, _every_trial, test, recipe, measured)
        case DeviationAtMost() | DeviationAtLeast():
            return _of_row(test.row, _deviation, test, recipe, measured)
        case NoLarger():
            return _of_row(test.row, _sizes(recipe, measured), test, recipe, measured)
        case CheckHolds():
            return _check(test, recipe, measured)


def _of_row(
    label: str,
    rule: Callable[[T, MeasuredRow], Decision],
    test: T,
    recipe: Recipe,
    measured: Measured,
) -> Decision:
    row = row_of(recipe, measured, label)
    return _not_measured(row.text) if isinstance(row, Missing) else rule(test, row)


def _sizes(recipe: Recipe, measured: Measured) -> Callable[[NoLarger, MeasuredRow], Decision]:
    """The rule that compares a row's trained parameters with those of another row."""

    def rule(test: NoLarger, row: MeasuredRow) -> Decision:
        other = row_of(recipe, measured, test.other)
        if isinstance(other, Missing):
            return _not_measured(other.text)
        if row.parameters is None or other.parameters is None:
            return _not_measured(f"the sizes of {test.row} and {test.other} are not known")
        text = (
            f"{test.row} has {row.parameters:,} trained parameters and {test.other} "
            f"{other.parameters:,}; claimed: at most {_percent(test.within)} more"
        )
        fits = row.parameters <= other.parameters * (1 + test.within)
        return _found(text, holds=fits, fails=not fits, doubts=())

    return rule


def _score(test: ScoreAtMost | ScoreAtLeast, recipe: Recipe, measured: Measured) -> Decision:
    cell = scores_of_cell(recipe, measured, test.row, test.column)
    if isinstance(cell, Missing):
        return _not_measured(cell.text)
    row, scores = cell
    found = mean_interval(scores, LEVEL)
    at_most = isinstance(test, ScoreAtMost)
    holds = found.high <= test.value if at_most else found.low >= test.value
    fails = found.low > test.value if at_most else found.high < test.value
    bound = f"claimed: at {'most' if at_most else 'least'} {_percent(test.value)}"
    text = f"{test.row} has {_interval(found)} right on {test.column} ({_over(scores)}); {bound}"
    doubts = [*_few(len(scores.seeds)), *_unmeasured(row, scores.seeds)]
    if fails and not at_most and _trains(row, recipe, test.row, test.column):
        doubts += unrest(row, len(scores.seeds))
    return _found(text, holds=holds, fails=fails, doubts=doubts)


def _trains(row: MeasuredRow, recipe: Recipe, label: str, column: str) -> bool:
    """Return True if the column shows the row on a task that it was trained on.

    The tasks of a base model are not among what a row has, so each may be one of them.
    """
    return row.task is None or agrees(recipe.column(label, column).task, row.task)


def _above(test: ScoreAbove, recipe: Recipe, measured: Measured) -> Decision:
    column = test.other_column or test.column
    cells = [
        scores_of_cell(recipe, measured, test.row, test.column),
        scores_of_cell(recipe, measured, test.other, column),
    ]
    for cell in cells:
        if isinstance(cell, Missing):
            return _not_measured(cell.text)
    (row, first), (other, second) = (cell for cell in cells if not isinstance(cell, Missing))
    shared = set(first.seeds) & set(second.seeds)
    if first.items != second.items or not shared:
        why = "have no seed in common" if not shared else "were scored on unlike numbers of items"
        return undecided(f"{test.row} and {test.other} {why}, so they cannot be paired")
    pair = paired_difference(first, second, LEVEL)
    where = test.column if column == test.column else f"{test.column} against {column}"
    text = (
        f"{test.row} is ahead of {test.other} by {_points(pair.difference)} "
        f"({LEVEL:.0%} interval over seeds like those run {_points(pair.seen_low)} to "
        f"{_points(pair.seen_high)}) on {where} "
        f"({counted(pair.seeds, 'seed')}, {pair.items:,} items each; up to "
        f"{unseen_failure_rate(pair.seeds, LEVEL):.0%} of other seeds may do otherwise); "
        f"claimed: more than {_points(test.by)}"
    )
    doubts = [*_few(pair.seeds), *_unmeasured(row, first.seeds), *_unmeasured(other, second.seeds)]
    fails = pair.seen_high <= test.by
    has_room = mean_interval(second, LEVEL).low + test.by < 1  # to be so far ahead
    if fails and has_room and _trains(row, recipe, test.row, test.column):
        doubts += unrest(row, len(first.seeds))
    return _found(text, holds=pair.seen_low > test.by, fails=fails, doubts=doubts)


def _every_trial(test: EveryTrialAtMost, row: MeasuredRow) -> Decision:
    """Refuted by one trial, at a level shared out over all; shown by every trial's own interval.

    That all lie below is concluded only where each alone is shown to, which needs no correction.
    """
    scored = [trial for trial in row.trials if trial.correct is not None]
    if not scored:
        return _not_measured(f"no trial of {test.row} has a score yet{because(row.missing)}")
    best = max(scored, key=_share)
    shared_out = 1 - (1 - LEVEL) / len(scored)
    fails = any(_limits(trial, shared_out).low > test.value for trial in scored)
    highest = max(_limits(trial, LEVEL).high for trial in scored)
    diverged = sum(trial.status == "diverged" for trial in row.trials)
    seeds = {trial.seed for trial in scored}
    text = (
        f"the best of {len(scored)} trials of {test.row} over {counted(len(seeds), 'seed')} has "
        f"{_percent(_share(best))} of {best.total:,} held-out items right (learning rate "
        f"{best.learning_rate:g}, seed {best.seed}), and each is shown to be at most "
        f"{_percent(highest)}{f'; {diverged} more diverged' if diverged else ''}; up to "
        f"{unseen_failure_rate(len(seeds), LEVEL):.0%} of other seeds may do otherwise; "
        f"claimed: at most {_percent(test.value)} in every trial"
    )
    doubts = [*_few(len(seeds)), *_untried(test, row), *_unmeasured(row, tuple(seeds))]
    if fails:
        return Decision(finding="not_reproduced", evidence=sentence(text))
    return _found(text, holds=highest <= test.value, fails=False, doubts=doubts)


def _untried(test: EveryTrialAtMost, row: MeasuredRow) -> Iterator[str]:
    """What speaks against calling the trials of a row every trial."""
    by_seed: dict[int, int] = defaultdict(int)
    for trial in row.trials:
        by_seed[trial.seed] += 1
    fewest = min(by_seed.values())
    if fewest < test.trials:
        yield f"{fewest} of the {test.trials} trials that the claim is about were run for a seed"
    if eliminated := sum(trial.status == "eliminated" for trial in row.trials):
        yield f"{eliminated} trials were eliminated before their last step"
    if any(trial.correct is None and trial.status != "diverged" for trial in row.trials):
        yield "some trials have no score"


def _share(trial: TrialScore) -> float:
    return (trial.correct or 0) / trial.total


def _limits(trial: TrialScore, level: float) -> Interval:
    return seed_interval([trial.correct or 0], [trial.total], level)


def _deviation(test: DeviationAtMost | DeviationAtLeast, row: MeasuredRow) -> Decision:
    """An identity: one seed refutes it. What is said to move has to move in every seed."""
    if not row.deviations:
        return _not_measured(f"no attention of {test.row} was captured{because(row.missing)}")
    least, most = min(row.deviations.values()), max(row.deviations.values())
    doubts = [*_few(len(row.deviations)), *_unmeasured(row, tuple(row.deviations))]
    told = f"relative attention of {test.row} in the first layer moved by"
    over = f"over {counted(len(row.deviations), 'seed')}"
    if isinstance(test, DeviationAtMost):
        text = f"{told} at most {most:.1e} {over}; claimed: at most {test.value:.1e}"
        if most > test.value:
            return Decision(finding="not_reproduced", evidence=sentence(text))
        return _found(text, holds=True, fails=False, doubts=doubts)
    text = f"{told} {least:.2g} to {most:.2g} {over}; claimed: at least {test.value:.2g}"
    return _found(text, holds=least >= test.value, fails=most < test.value, doubts=doubts)


def _check(test: CheckHolds, recipe: Recipe, measured: Measured) -> Decision:
    checks = [one for one in measured.checks if _is_meant(test, recipe, one)]
    reports = [
        report
        for one in checks
        for report in one.reports
        if test.report is None or report.name == test.report
    ]
    if not reports:
        reasons = [reason for one in checks for reason in one.missing]
        return _not_measured(f"check {test.report or test.check} has no report{because(reasons)}")
    unclear = [report for report in reports if _is_unclear(report)]
    failed = [one for one in reports if one.verdict == "fails" and one not in unclear]
    shown = (*failed, *unclear, *reports)[0]
    seeds = [one.seeds for one in checks if one.seeds is not None]
    over = f", on {counted(min(seeds), 'seed')} of trained weights" if seeds else ""
    text = (
        f"check {test.check}: {_held(len(reports), len(failed), len(unclear))}{over}; "
        f"{shown.name} measured {shown.measured:.3g}{_interval_of(shown)}, {shown.bound} "
        f"{shown.tolerance:.3g}"
    )
    doubts = [*(_few(min(seeds)) if seeds else ()), *(r for one in checks for r in one.missing)]
    if failed:
        return Decision(finding="not_reproduced", evidence=sentence(text))
    return _found(text, holds=not unclear, fails=False, doubts=doubts)


def _is_unclear(report: Check) -> bool:
    """Return True if the report has an interval that reaches over its tolerance."""
    low, high = report.details.get("low"), report.details.get("high")
    if not isinstance(low, float) or not isinstance(high, float):
        return False
    return low <= report.tolerance < high


def _interval_of(report: Check) -> str:
    if not {"low", "high"} <= report.details.keys():
        return ""
    return " ({:.0%} interval {:.3g} to {:.3g})".format(
        LEVEL, report.details["low"], report.details["high"]
    )


def _held(reports: int, failed: int, unclear: int) -> str:
    if reports == 1:
        return f"its report {'fails' if failed else 'cannot be decided' if unclear else 'holds'}"
    undecided = f", {unclear} cannot be decided" if unclear else ""
    return f"{reports - failed - unclear} of its {reports} reports hold{undecided}"


def _is_meant(test: CheckHolds, recipe: Recipe, one: MeasuredCheck) -> bool:
    if test.check not in (one.check, one.label):
        return False
    return test.of is None or (one.of is not None and stands_for(recipe, test.of, one.of))


def _found(text: str, *, holds: bool, fails: bool, doubts: Sequence[str]) -> Decision:
    """The finding of an interval; with doubts nothing is decided, and they are told."""
    if doubts:
        return undecided(f"{text}; not decided, because {'; '.join(dict.fromkeys(doubts))}")
    finding: ClaimFinding = "reproduced" if holds else "not_reproduced" if fails else "undecided"
    return Decision(finding=finding, evidence=sentence(text))


def _few(seeds: int) -> Iterator[str]:
    if seeds < LEAST_SEEDS:
        yield f"{counted(seeds, 'seed')} cannot stand for others ({LEAST_SEEDS} are the least)"


def _unmeasured(row: MeasuredRow, seeds: Sequence[int]) -> Iterator[str]:
    """Seeds without a score may be the ones that failed, so that the others are no fair sample."""
    if missing := set(row.seeds) - set(seeds):
        name = row.method or row.base_model
        yield f"{len(missing)} of {len(row.seeds)} seeds of {name} are not measured" + because(
            row.missing
        )


def _not_measured(text: str) -> Decision:
    return Decision(finding="not_measured", evidence=sentence(text))


def undecided(text: str) -> Decision:
    """The finding that nothing is decided, with a sentence that says why."""
    return Decision(finding="undecided", evidence=sentence(text))


def sentence(text: str) -> str:
    """The text with a capital letter and one full stop."""
    return text[0].upper() + text[1:].rstrip(".") + "."


def _interval(found: Interval) -> str:
    return (
        f"{_percent(found.mean)} ({LEVEL:.0%} interval {_percent(found.low)} to "
        f"{_percent(found.high)})"
    )


def _over(scores: Scores) -> str:
    """The seeds and items, and whether seeds share the weights that they start from."""
    told = f"{counted(len(scores.seeds), 'seed')}, {scores.items:,} items each"
    bases = len(set(scores.bases))
    if bases and bases < len(scores.seeds):
        told += f", from {bases} trained base{'s' if bases > 1 else ''} only"
    return told


def _percent(share: float) -> str:
    """With two figures below 1 %, so that 0.04 % is not 0.0 %."""
    value = 100 * share
    if 0 < value < 0.01:
        return "below 0.01 %"
    return f"{value:.2g} %" if 0 < value < 1 else f"{value:.1f} %"


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"
