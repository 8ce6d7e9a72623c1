"""Measurements of a study for a recipe's report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from adaptlab.reproductions.claim import RowSelector
from adaptlab.reproductions.recipe import Recipe
from adaptlab.reproductions.task_matching import TaskConfiguration, agrees
from adaptlab.runs.events import Evaluation, ReplicateStatus
from adaptlab.runs.theory_report import Check
from adaptlab.specs.task_floor import task_floor
from adaptlab.statistics import Scores


@dataclass(frozen=True, slots=True)
class TrialScore:
    """The score of one trial of one seed on held-out items.

    `correct` is None if there is no score: the trial diverged, or was not scored.
    """

    seed: int
    learning_rate: float
    status: ReplicateStatus
    correct: int | None
    total: int


@dataclass(frozen=True, slots=True)
class SeedLoss:
    """Training loss of a seed's chosen trial, half way and at the end.

    Losses are in nats. `half` is None if it was not kept, `final` if the trial diverged. `at_edge`
    is True if several learning rates were tried and the chosen one is the lowest or the highest of
    them.
    """

    seed: int
    half: float | None
    final: float | None
    at_edge: bool = False


@dataclass(frozen=True, slots=True)
class RecipeRow:
    """One method of a study on one base model and task, or a base model alone.

    Attributes:
        base_model: the recipe's word for it.
        method: its label; None for the base model alone.
        task: the task that was trained; None for the base model alone.
        budgets: the limits that give this size.
        seeds: the requested seeds, measured or not.
        scores: the test scores, one entry for every task that was scored.
        watched: the test scores on every task, adapted and of the base model alone; empty for a
            base model.
        carried: the test scores on other base models, by the recipe's words for them.
        deviations: the largest move of relative attention in the first layer, by seed.
        trials: every trial of every seed.
        schedule: of the learning rate; only under a constant one does a level loss mean that more
            steps would change nothing.
        losses: of the chosen trial of every seed.
        looks: how often seeds were asked for; more than once if some were added after others were
            seen.
        missing: the reasons why seeds are missing, as sentences.
    """

    base_model: str
    method: str | None = None
    task: TaskConfiguration | None = None
    budgets: tuple[int, ...] = ()
    seeds: tuple[int, ...] = ()
    parameters: int | None = None
    steps: int | None = None
    scores: tuple[tuple[TaskConfiguration, Scores], ...] = ()
    watched: tuple[Evaluation, ...] = ()
    carried: Mapping[str, tuple[tuple[TaskConfiguration, Scores], ...]] = field(
        default_factory=dict[str, tuple[tuple[TaskConfiguration, Scores], ...]]
    )
    deviations: Mapping[int, float] = field(default_factory=dict[int, float])
    trials: tuple[TrialScore, ...] = ()
    schedule: str | None = None
    losses: tuple[SeedLoss, ...] = ()
    looks: int = 1
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasuredCheck:
    """The reports of one theory check of a study.

    `check` is its name and `label` its label in the study. `of` is the row that it measured, None
    for a check that builds its own model or measures several rows. `seeds` is the number of seeds
    whose trained weights or demonstrations it measured, None for constructions and the first seed
    of a base.
    """

    check: str
    label: str
    of: RecipeRow | None = None
    seeds: int | None = None
    reports: tuple[Check, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecipeMeasurements:
    """All measurements of a recipe's study so far."""

    rows: tuple[RecipeRow, ...] = ()
    checks: tuple[MeasuredCheck, ...] = ()


@dataclass(frozen=True, slots=True)
class Missing:
    """The reason for a missing measurement.

    It is `absent` if the study does not include it.
    """

    text: str
    absent: bool = False


def row_of(recipe: Recipe, measured: RecipeMeasurements, label: str) -> RecipeRow | Missing:
    """Return the study's result for a row of the recipe's tables."""
    selector = recipe.row(label).of
    matches = [row for row in measured.rows if stands_for(recipe, selector, row)]
    if not matches:
        return Missing(f"{label} is not part of this study", absent=True)
    if len(matches) > 1:
        return Missing(f"{label} matches {len(matches)} results of this study, so none counts")
    return matches[0]


@dataclass(frozen=True, slots=True)
class MeasuredCell:
    """The scores of a row on the task of a column."""

    row: RecipeRow
    task: TaskConfiguration
    scores: Scores

    def floor(self) -> float | None:
        """Return the accuracy on the scored items that needs no skill."""
        floor = task_floor(self.task)
        return None if floor is None else max(floor, self.scores.majority or 0.0)


def cell_of(
    recipe: Recipe, measured: RecipeMeasurements, label: str, column: str
) -> MeasuredCell | Missing:
    """Return the scores of a row on the task of the column."""
    row, shown = row_of(recipe, measured, label), recipe.column(label, column)
    if isinstance(row, Missing):
        return row
    if shown.base_model is not None and row.method is None:
        alone = [one for one in measured.rows if one.method is None]
        row = next((one for one in alone if one.base_model == shown.base_model), row)
    is_carried = shown.base_model not in (None, row.base_model)
    scored = row.carried.get(shown.base_model or "", ()) if is_carried else row.scores
    matches = [MeasuredCell(row, task, scores) for task, scores in scored if shown.shows(task)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        return Missing(f"{label} has scores on {len(matches)} tasks that match {column}")
    if is_carried and row.scores and not row.missing:
        return Missing(f"What {label} finds has no score on {column}: it was not carried there")
    return Missing(f"{label} has no score on {column} yet{because(row.missing)}")


def because(missing: Sequence[str]) -> str:
    """Return the first reason for what is missing, as the end of a sentence."""
    return f": {missing[0]}" if missing else ""


def stands_for(recipe: Recipe, selector: RowSelector, row: RecipeRow) -> bool:
    """Return True if the selector matches this row."""
    base = selector.base_model or next(iter(recipe.base_models), None)
    if (row.base_model, row.method) != (base, selector.method):
        return False
    if selector.budget is not None and selector.budget not in row.budgets:
        return False
    return selector.task is None or (row.task is not None and agrees(selector.task, row.task))
