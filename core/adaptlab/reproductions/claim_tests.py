"""The finding of one test of a claim, with the figures behind it."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from adaptlab.figures import counted
from adaptlab.reproductions.claim import (
    CheckAbove,
    CheckHolds,
    ClaimTest,
    DeviationAtLeast,
    DeviationAtMost,
    DriftsLess,
    EveryTrialAtMost,
    NoLarger,
    PlainTest,
    RetainsMore,
    ScoreAbove,
    ScoreAtLeast,
    ScoreAtMost,
)
from adaptlab.reproductions.claim_checks import decide_check, decide_check_order
from adaptlab.reproductions.claim_findings import (
    Decision,
    decision,
    few_seeds,
    interval_name,
    is_shown,
    level_of,
    not_measured,
    points_text,
    sentence,
    share_text,
    undecided,
    unmeasured_seeds,
    unseen_seeds,
)
from adaptlab.reproductions.claim_retention import decide_retention
from adaptlab.reproductions.recipe import Recipe
from adaptlab.reproductions.recipe_results import (
    Missing,
    RecipeMeasurements,
    RecipeRow,
    TrialScore,
    because,
    cell_of,
    row_of,
)
from adaptlab.reproductions.training_rest import unrest
from adaptlab.specs.task_floor import task_floor
from adaptlab.statistics import (
    Interval,
    Scores,
    mean_interval,
    paired_difference,
    seed_interval,
)
from adaptlab.statistics.samples import sample_of, shifted

LEAST_FLOOR = 5e-4
"""Floors below it are not said: they round to 0.0 %."""
T = TypeVar("T", bound=ClaimTest)


def decide_test(test: PlainTest, recipe: Recipe, measured: RecipeMeasurements) -> Decision:
    """Return the finding of one test.

    It is `not_measured` if a row that it names has no results.
    """
    match test:
        case ScoreAtMost() | ScoreAtLeast():
            return _score(test, recipe, measured)
        case ScoreAbove():
            return _above(test, recipe, measured)
        case RetainsMore() | DriftsLess():
            return decide_retention(test, recipe, measured)
        case EveryTrialAtMost():
            return _of_row(test.row, _every_trial, test, recipe, measured)
        case DeviationAtMost() | DeviationAtLeast():
            return _of_row(test.row, _deviation, test, recipe, measured)
        case NoLarger():
            return _of_row(test.row, _sizes(recipe, measured), test, recipe, measured)
        case CheckHolds():
            return decide_check(test, recipe, measured)
        case CheckAbove():
            return decide_check_order(test, recipe, measured)


def _of_row(
    label: str,
    rule: Callable[[T, RecipeRow], Decision],
    test: T,
    recipe: Recipe,
    measured: RecipeMeasurements,
) -> Decision:
    row = row_of(recipe, measured, label)
    return not_measured(row.text) if isinstance(row, Missing) else rule(test, row)


def _sizes(
    recipe: Recipe, measured: RecipeMeasurements
) -> Callable[[NoLarger, RecipeRow], Decision]:
    """Return the rule that compares the sizes of two rows."""

    def rule(test: NoLarger, row: RecipeRow) -> Decision:
        other = row_of(recipe, measured, test.other)
        if isinstance(other, Missing):
            return not_measured(other.text)
        if row.parameters is None or other.parameters is None:
            return not_measured(f"the sizes of {test.row} and {test.other} are not known")
        text = (
            f"{test.row} has {row.parameters:,} trained parameters and {test.other} has "
            f"{other.parameters:,}; claimed: at most {share_text(test.within)} more"
        )
        fits = row.parameters <= other.parameters * (1 + test.within)
        return decision(text, holds=fits, fails=not fits, doubts=())

    return rule


def _score(
    test: ScoreAtMost | ScoreAtLeast, recipe: Recipe, measured: RecipeMeasurements
) -> Decision:
    cell = cell_of(recipe, measured, test.row, test.column)
    if isinstance(cell, Missing):
        return not_measured(cell.text)
    row, scores = cell.row, cell.scores
    level = level_of(row)
    score = mean_interval(scores, level)
    at_most = isinstance(test, ScoreAtMost)
    limit = _limit(test, cell.floor()) if isinstance(test, ScoreAtMost) else _Limit(test.value)
    if limit is None:
        return not_measured(f"the floor of {test.column} is not known: its task is not installed")
    holds = score.high <= limit.value if at_most else score.low >= limit.value
    fails = score.low > limit.value if at_most else score.high < limit.value
    text = (
        f"{test.row} scores {share_text(score.mean)} on {test.column} ({_interval(score, level)}; "
        f"{_over(scores)}); claimed: at {'most' if at_most else 'least'} {limit}"
    )
    doubts = [*few_seeds(len(scores.seeds)), *unmeasured_seeds(row, scores.seeds)]
    if fails and not at_most and _trains(row, recipe, test.row, test.column):
        doubts += unrest(row, len(scores.seeds))
    return decision(text, holds=holds, fails=fails, doubts=doubts)


@dataclass(frozen=True, slots=True)
class _Limit:
    """A claimed score, with the floor that it was counted from."""

    value: float
    floor: float = 0.0

    def __str__(self) -> str:
        if not self.floor:
            return share_text(self.value)
        above = f"{100 * (self.value - self.floor):.1f}".rstrip("0").rstrip(".")
        return (
            f"{share_text(self.value)}, {above} above the floor of {share_text(self.floor)} (the "
            "best constant answer or guessing)"
        )


def _limit(test: ScoreAtMost | EveryTrialAtMost, floor: float | None) -> _Limit | None:
    """Return the claimed score, None if its floor is not known.

    A floor that rounds to nothing is none.
    """
    if not test.above_floor:
        return _Limit(test.value)
    if floor is None:
        return None
    floor = floor if floor >= LEAST_FLOOR else 0.0
    return _Limit(test.value + floor, floor)


def _trains(row: RecipeRow, recipe: Recipe, label: str, column: str) -> bool:
    """Return True if the column's task is one that the row trained.

    A row of a base model does not have the base's tasks, so any column may be one of them.
    """
    return row.task is None or recipe.column(label, column).shows(row.task)


def _above(test: ScoreAbove, recipe: Recipe, measured: RecipeMeasurements) -> Decision:
    column = test.other_column or test.column
    cells = [
        cell_of(recipe, measured, test.row, test.column),
        cell_of(recipe, measured, test.other, column),
    ]
    for cell in cells:
        if isinstance(cell, Missing):
            return not_measured(cell.text)
    ours, theirs = (cell for cell in cells if not isinstance(cell, Missing))
    row, first, other, second = ours.row, ours.scores, theirs.row, theirs.scores
    level = level_of(row, other)
    shared = set(first.seeds) & set(second.seeds)
    if first.items != second.items or not shared:
        why = "different numbers of items" if shared else "no seed in common"
        return undecided(f"{test.row} and {test.other} have {why}, so they cannot be paired")
    pair = paired_difference(first, second, level)
    where = test.column if column == test.column else f"{test.column} against {column}"
    text = (
        f"the lead of {test.row} over {test.other} on {where} is {points_text(pair.difference)} "
        f"({interval_name(level)} {100 * pair.low:.1f} to {points_text(pair.high)} "
        f"for a typical seed; {counted(pair.seeds, 'seed')}, {pair.items:,} items each; "
        f"{unseen_seeds(pair.seeds)}); claimed: more than {points_text(test.by)}"
    )
    doubts = [
        *few_seeds(pair.seeds),
        *unmeasured_seeds(row, first.seeds),
        *unmeasured_seeds(other, second.seeds),
    ]
    ahead, behind = shifted(sample_of(first), -test.by), sample_of(second)
    fails = is_shown(behind, ahead, level)
    has_room = mean_interval(second, level).low + test.by < 1  # to be so far ahead
    if fails and has_room and _trains(row, recipe, test.row, test.column):
        doubts += unrest(row, len(first.seeds))
    is_reversed = is_shown(behind, shifted(ahead, test.by), level)
    holds = is_shown(ahead, behind, level)
    return decision(text, holds=holds, fails=fails, doubts=doubts, is_reversed=is_reversed)


def _every_trial(test: EveryTrialAtMost, row: RecipeRow) -> Decision:
    """Decide a test of every trial, which one trial refutes.

    The level is divided among all trials to refute it. That all are below is concluded only if
    each is shown to be by its own interval, which needs no correction.
    """
    scored = [trial for trial in row.trials if trial.correct is not None]
    if not scored:
        return not_measured(f"no trial of {test.row} has a score yet{because(row.missing)}")
    limit = _limit(test, None if row.task is None else task_floor(row.task))
    if limit is None:
        return not_measured(f"the floor of the task of {test.row} is not known")
    best, level = max(scored, key=_share), level_of(row)
    shared_out = 1 - (1 - level) / len(scored)
    fails = any(_limits(trial, shared_out).low > limit.value for trial in scored)
    highest = max(_limits(trial, level).high for trial in scored)
    diverged = sum(trial.status == "diverged" for trial in row.trials)
    seeds = {trial.seed for trial in scored}
    text = (
        f"the best of {counted(len(scored), 'trial')} of {test.row} over "
        f"{counted(len(seeds), 'seed')} scores {share_text(_share(best))} on {best.total:,} "
        f"held-out items (learning rate {best.learning_rate:g}, seed {best.seed}), and every trial "
        f"is shown to score at most {share_text(highest)}"
        f"{f'; {diverged:,} more diverged' if diverged else ''}; {unseen_seeds(len(seeds))}; "
        f"claimed: at most {limit} in every trial"
    )
    doubts = [*few_seeds(len(seeds)), *_untried(test, row), *unmeasured_seeds(row, tuple(seeds))]
    if fails:
        return Decision(finding="fails", evidence=sentence(text))
    return decision(text, holds=highest <= limit.value, fails=False, doubts=doubts)


def _untried(test: EveryTrialAtMost, row: RecipeRow) -> Iterator[str]:
    """Yield reasons why a row's trials are not all that the claim means."""
    by_seed: dict[int, int] = defaultdict(int)
    for trial in row.trials:
        by_seed[trial.seed] += 1
    fewest = min(by_seed.values())
    if fewest < test.trials:
        yield f"a seed has only {fewest} of the {test.trials} trials that the claim is about"
    if eliminated := sum(trial.status == "eliminated" for trial in row.trials):
        verb = "was" if eliminated == 1 else "were"
        yield f"{counted(eliminated, 'trial')} {verb} eliminated before the last step"
    if any(trial.correct is None and trial.status != "diverged" for trial in row.trials):
        yield "some trials have no score"


def _share(trial: TrialScore) -> float:
    return (trial.correct or 0) / trial.total


def _limits(trial: TrialScore, level: float) -> Interval:
    return seed_interval([trial.correct or 0], [trial.total], level)


def _deviation(test: DeviationAtMost | DeviationAtLeast, row: RecipeRow) -> Decision:
    """Decide a test of relative attention.

    One seed refutes an identity; what is claimed to move has to move in every seed.
    """
    if not row.deviations:
        return not_measured(f"no attention of {test.row} was captured{because(row.missing)}")
    least, most = min(row.deviations.values()), max(row.deviations.values())
    doubts = [*few_seeds(len(row.deviations)), *unmeasured_seeds(row, tuple(row.deviations))]
    moved = f"relative attention of {test.row} in the first layer moved by"
    over = f"over {counted(len(row.deviations), 'seed')}"
    if isinstance(test, DeviationAtMost):
        text = f"{moved} at most {most:.1e} {over}; claimed: at most {test.value:.1e}"
        if most > test.value:
            return Decision(finding="fails", evidence=sentence(text))
        return decision(text, holds=True, fails=False, doubts=doubts)
    text = f"{moved} {least:.2g} to {most:.2g} {over}; claimed: at least {test.value:.2g}"
    return decision(text, holds=least >= test.value, fails=most < test.value, doubts=doubts)


def _interval(score: Interval, level: float) -> str:
    return f"{interval_name(level)} {share_text(score.low)} to {share_text(score.high)}"


def _over(scores: Scores) -> str:
    """Return the numbers of seeds and items, and of bases if seeds share one."""
    numbers = f"{counted(len(scores.seeds), 'seed')}, {scores.items:,} items each"
    bases = len(set(scores.bases))
    if bases and bases < len(scores.seeds):
        numbers += f", from only {counted(bases, 'trained base')}"
    return numbers
