"""What a study has measured, as a recipe's report needs it, and which of it a row stands for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from adaptlab.measurements.results import ReplicateStatus
from adaptlab.measurements.theory_report import Check
from adaptlab.reproductions.claim import RowSelector
from adaptlab.reproductions.recipe import Recipe
from adaptlab.reproductions.task_matching import TaskConfiguration, agrees
from adaptlab.statistics import Scores


@dataclass(frozen=True, slots=True)
class TrialScore:
    """How one trial of one seed did on held-out items of the task that it was trained on.

    `correct` is None where there is no score: the trial diverged, or was not scored.
    """

    seed: int
    learning_rate: float
    status: ReplicateStatus
    correct: int | None
    total: int


@dataclass(frozen=True, slots=True)
class SeedLoss:
    """Training loss in nats of a seed's chosen trial, at half of its steps and at the end.

    `half` is None where it was not kept, `final` where the trial diverged. `at_edge` is True if
    several learning rates were tried and the chosen one is the lowest or the highest of them.
    """

    seed: int
    half: float | None
    final: float | None
    at_edge: bool = False


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One method of a study on one base model and task, or a base model on its own.

    Attributes:
        base_model: by the recipe's word for it.
        method: its label; None for the base model on its own.
        task: the one that was trained, None for the base model on its own.
        budgets: the limits at which it comes out so.
        seeds: those that were asked for, measured or not.
        scores: the test scores by task, one entry for every task that was scored.
        deviations: by seed, how far relative attention moved in the first layer at most.
        trials: every trial of every seed.
        schedule: of the learning rate; only at a constant one does a loss that stands still mean
            that more steps would change nothing.
        losses: of the chosen trial of every seed.
        missing: sentences that say why seeds are not there.
    """

    base_model: str
    method: str | None = None
    task: TaskConfiguration | None = None
    budgets: tuple[int, ...] = ()
    seeds: tuple[int, ...] = ()
    parameters: int | None = None
    steps: int | None = None
    scores: tuple[tuple[TaskConfiguration, Scores], ...] = ()
    deviations: Mapping[int, float] = field(default_factory=dict[int, float])
    trials: tuple[TrialScore, ...] = ()
    schedule: str | None = None
    losses: tuple[SeedLoss, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasuredCheck:
    """The reports of one theory check of a study.

    `check` is its name and `label` what the study calls it. `of` is the row that it measured, None
    for a check that builds what it measures or that measures several rows. `seeds` is the number
    of seeds whose trained weights it measured, None where it measured none.
    """

    check: str
    label: str
    of: MeasuredRow | None = None
    seeds: int | None = None
    reports: tuple[Check, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """All that a study of a recipe has measured so far."""

    rows: tuple[MeasuredRow, ...] = ()
    checks: tuple[MeasuredCheck, ...] = ()


@dataclass(frozen=True, slots=True)
class Missing:
    """Why something was not measured; `absent` where the study was never asked for it."""

    text: str
    absent: bool = False


def row_of(recipe: Recipe, measured: Measured, label: str) -> MeasuredRow | Missing:
    """What the study has for a row of the recipe's tables."""
    selector = recipe.row(label).of
    found = [row for row in measured.rows if stands_for(recipe, selector, row)]
    if not found:
        return Missing(f"{label} is not part of this study", absent=True)
    if len(found) > 1:
        return Missing(f"{label} fits {len(found)} results of this study and so means none of them")
    return found[0]


def scores_of_cell(
    recipe: Recipe, measured: Measured, label: str, column: str
) -> tuple[MeasuredRow, Scores] | Missing:
    """The row and its scores on the task of the column."""
    row = row_of(recipe, measured, label)
    if isinstance(row, Missing):
        return row
    asked = recipe.column(label, column).task
    found = [scores for task, scores in row.scores if agrees(asked, task)]
    if len(found) == 1:
        return row, found[0]
    if found:
        return Missing(f"{label} was scored on {len(found)} tasks that {column} may mean")
    return Missing(f"{label} has no score on {column} yet{because(row.missing)}")


def because(missing: Sequence[str]) -> str:
    """The first reason for what is missing, as the end of a sentence."""
    return f": {missing[0]}" if missing else ""


def stands_for(recipe: Recipe, selector: RowSelector, row: MeasuredRow) -> bool:
    """Whether a selector means this row."""
    base = selector.base_model or next(iter(recipe.base_models), None)
    if (row.base_model, row.method) != (base, selector.method):
        return False
    if selector.budget is not None and selector.budget not in row.budgets:
        return False
    return selector.task is None or (row.task is not None and agrees(selector.task, row.task))
