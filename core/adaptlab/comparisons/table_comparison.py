"""One table of a comparison with all that a reader needs beside the scores, and its warnings."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal
from uuid import UUID

from adaptlab.comparisons.comparison import Comparison
from adaptlab.comparisons.comparison_warnings import WarningKind
from adaptlab.comparisons.diagnosis import Diagnosis
from adaptlab.comparisons.diagnosis_next import HIGHEST_RATE
from adaptlab.comparisons.scores import ScoreChange
from adaptlab.studies.study_plan import Role
from adaptlab.values import Value

FEWEST_RATES = 3
NOTHING_TO_GAIN = 0.99
WIDER = 10
"""By how much a sweep is widened whose best rate is at its end."""


TableWarningKind = WarningKind | Literal["missing", "sweep_at_edge"]


class TableWarning(Value):
    """What a reader must know before one of the tables; `methods` are the rows it touches."""

    base_model: str
    task: str
    kind: TableWarningKind
    text: str
    methods: tuple[str, ...] = ()


class TriedTrial(Value):
    """One trial over all seeds: how many chose it, in how many it diverged or was eliminated.

    `validation_accuracy` and `final_loss` are means over the seeds that have one; a job with one
    trial a seed has nothing to choose, and no validation accuracy. Those of an eliminated trial are
    from the step at which successive halving stopped it.
    """

    trial: int
    learning_rate: float
    weight_decay: float
    initial_scale: float
    seeds: int
    chosen: int
    diverged: int
    eliminated: int
    validation_accuracy: float | None
    final_loss: float | None


class ComparedMethod(Value):
    """What stands behind the row `label`: its jobs, and the effort that was spent on it.

    `budget` is None for what is the same at every budget: references, and methods of fixed size
    that all budgets have room for. `trials` is how many settings each seed was trained with, and
    `sweep` what came of each; `trained_steps` are the steps that all of these made together, fewer
    where some ended before the last.
    """

    method: str
    label: str
    budget: int | None
    role: Role
    parameters: int
    jobs: tuple[UUID, ...]
    seeds: tuple[int, ...]
    steps: int
    batch_size: int
    trials: int
    trained_steps: int
    sweep: tuple[TriedTrial, ...]


class MissingScores(Value):
    """Scores that the table lacks, and why.

    `state` is that of the job, or `skipped` where the method cannot meet the budget, and a job
    that succeeded was not scored on its task. `budget` is None where it is missing at every one.
    Without `seeds` it is all of them.
    """

    method: str
    budget: int | None
    state: str
    reason: str | None
    seeds: tuple[int, ...]
    job: UUID | None
    text: str


class MethodDiagnosis(Value):
    """Why the method in the row `label` fails, or is behind."""

    method: str
    label: str
    budget: int | None
    diagnosis: Diagnosis


class MethodForgetting(Value):
    """What the method in the row `label` did to the scores on the base model's own tasks."""

    method: str
    label: str
    budget: int | None
    changes: tuple[ScoreChange, ...]


class TableComparison(Value):
    """The methods on one task and base model; `comparison` is None while nothing is scored."""

    base_model: str
    task: str
    comparison: Comparison | None
    diagnoses: tuple[MethodDiagnosis, ...]
    missing: tuple[MissingScores, ...]
    forgetting: tuple[MethodForgetting, ...]
    methods: tuple[ComparedMethod, ...]


def table_warnings(tables: Sequence[TableComparison]) -> tuple[TableWarning, ...]:
    """What a reader must know before the tables, in their order."""
    return tuple(warning for table in tables for warning in _warnings(table))


def sweep_at_edge(method: ComparedMethod) -> str | None:
    """Return the warning about a method whose best rate is at an end of those tried, if it is.

    The best is the rate of the lowest mean training loss; rates at which any seed diverged do not
    count. A method that scores nearly everything has nothing to gain, and one that was tried at
    fewer than three rates has no sweep.
    """
    losses: dict[float, float] = {}
    ended = [one for one in method.sweep if not one.diverged and not one.eliminated]
    for one in ended:
        if one.final_loss is not None:
            known = losses.get(one.learning_rate, math.inf)
            losses[one.learning_rate] = min(known, one.final_loss)
    is_done = any((one.validation_accuracy or 0) >= NOTHING_TO_GAIN for one in ended)
    if is_done or len(losses) < FEWEST_RATES:
        return None
    low, *inside, high = sorted(losses)
    best = min(losses, key=lambda rate: losses[rate])
    if best in inside or losses[best] >= min(losses[rate] for rate in inside):
        return None
    lowest = low / WIDER if best == low else min(one.learning_rate for one in method.sweep)
    highest = min(HIGHEST_RATE, high * WIDER) if best == high else high
    return (
        f"{method.label} has its lowest training loss at {best:.3g}, the "
        f"{'lowest' if best == low else 'highest'} of the learning rates whose trials "
        "finished, so a better one may be beyond it. Try tuning.learning_rate_range "
        f"[{lowest:.3g}, {highest:.3g}]."
    )


def _unequal_steps(table: TableComparison) -> TableWarning | None:
    """The warning about trainings that are longer than others in a table that is valid."""
    steps = Counter(one.steps for one in table.methods if one.parameters)
    if table.comparison is None or table.comparison.voided or len(steps) < 2:
        return None
    usual = steps.most_common(1)[0][0]
    other = [one for one in table.methods if one.parameters and one.steps != usual]
    named = ", ".join(f"{one.label} has {one.steps:,}" for one in other)
    return TableWarning(
        base_model=table.base_model,
        task=table.task,
        kind="unequal_effort",
        text=f"The numbers of steps differ: {named}, the others {usual:,}.",
        methods=tuple(one.label for one in other),
    )


def _warnings(table: TableComparison) -> Iterator[TableWarning]:
    for one in table.comparison.warnings if table.comparison else ():
        yield TableWarning(
            base_model=table.base_model,
            task=table.task,
            kind=one.kind,
            text=one.text,
            methods=one.methods,
        )
    for method in table.methods:
        if (text := sweep_at_edge(method)) is not None:
            yield TableWarning(
                base_model=table.base_model,
                task=table.task,
                kind="sweep_at_edge",
                text=text,
                methods=(method.label,),
            )
    if (unequal := _unequal_steps(table)) is not None:
        yield unequal
    lacking = [one for one in table.missing if one.state != "skipped"]
    if lacking:
        yield TableWarning(
            base_model=table.base_model,
            task=table.task,
            kind="missing",
            text="Scores are missing: " + " ".join(dict.fromkeys(one.text for one in lacking)),
            methods=tuple(dict.fromkeys(one.method for one in lacking)),
        )
