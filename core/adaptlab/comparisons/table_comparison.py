"""A table of a comparison: scores, jobs, effort and warnings."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Literal
from uuid import UUID

from adaptlab.comparisons.comparison import Comparison
from adaptlab.comparisons.comparison_warnings import WarningKind
from adaptlab.comparisons.diagnosis import Diagnosis
from adaptlab.comparisons.diagnosis_next import HIGHEST_RATE
from adaptlab.comparisons.frontier import Frontier
from adaptlab.comparisons.group_scores import GroupScore
from adaptlab.comparisons.report import Report, SeenSeeds, report_of
from adaptlab.comparisons.row_names import first_in_sentence, method_in_sentence
from adaptlab.comparisons.scores import ScoreChange
from adaptlab.comparisons.task_retention import TaskRetention, TextDrift
from adaptlab.figures import listed
from adaptlab.specs.spec import HIGHEST_SCALE
from adaptlab.studies.study_plan import Role
from adaptlab.values import Value

FEWEST_VALUES = 3
NOTHING_TO_GAIN = 0.99
WIDER = 10
"""Factor by which a sweep is widened if its best value is at an end."""


TableWarningKind = WarningKind | Literal["missing", "sweep_at_edge"]


class TableWarning(Value):
    """A fact to read before a table; `methods` are the rows concerned."""

    base_model: str
    task: str
    kind: TableWarningKind
    text: str
    methods: tuple[str, ...] = ()


class TriedTrial(Value):
    """One trial over all seeds, with the numbers of seeds by outcome.

    `validation_accuracy` and `final_loss` are means over the seeds that have one, and so is
    `validation_metric`, the task's other metric, by which trials are chosen if there is one. A job
    with one trial per seed has nothing to choose, and so no validation accuracy. The values of an
    eliminated trial are from the step at which successive halving stopped it.
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
    validation_metric: float | None = None
    final_loss: float | None


class SeedScore(Value):
    """The score of one seed, by default the share of test items it got right."""

    seed: int
    score: float


class ComparedMethod(Value):
    """The jobs of the row `label` and the effort that was spent on it.

    `budget` is None for a method that is the same at every budget: a reference, or a method of
    fixed size that fits all budgets. `context_tokens` are the positions that it adds, and
    `stored_bits` is the information that it stores, None for a job of an earlier version.
    `demonstrations` are those before questions, None if it has none. `trials` is the number of
    settings tried per seed, and `sweep` has the result of each. `trained_steps` is the sum of their
    steps, which is smaller if some ended early. `forward_passes` and `backward_passes` are those of
    all replicates on batches of training items, one of each per step unless the method searches for
    tokens. An imported adapter has no trials, steps and passes here. `seed_scores` are those of the
    scored seeds. `moved` is the largest deviation of the first layer's relative attention from the
    base model's over seeds, None if attention was not recorded.
    """

    method: str
    label: str
    budget: int | None
    role: Role
    parameters: int
    context_tokens: int = 0
    stored_bits: int | None = None
    demonstrations: int | None = None
    jobs: tuple[UUID, ...]
    seeds: tuple[int, ...]
    steps: int
    batch_size: int
    trials: int
    trained_steps: int
    moved: float | None = None
    forward_passes: int = 0
    backward_passes: int = 0
    sweep: tuple[TriedTrial, ...]
    seed_scores: tuple[SeedScore, ...] = ()

    @property
    def is_imported(self) -> bool:
        """True if the adapters were imported, not trained here."""
        return self.steps == 0


class MissingScores(Value):
    """Scores that the table lacks, with the reason.

    `state` is the job's state, or `skipped` if the method cannot meet the budget; a succeeded job
    was not scored on its task. `budget` is None if the scores are missing at every budget. Without
    `seeds`, all seeds are missing.
    """

    method: str
    budget: int | None
    state: str
    reason: str | None
    seeds: tuple[int, ...]
    job: UUID | None
    text: str


class MethodDiagnosis(Value):
    """The diagnosis of the method in the row `label`."""

    method: str
    label: str
    budget: int | None
    diagnosis: Diagnosis


class MethodForgetting(Value):
    """The change on the base's own tasks by the method in row `label`."""

    method: str
    label: str
    budget: int | None
    changes: tuple[ScoreChange, ...]


class MethodRetention(Value):
    """The retention of old tasks, and drift, by the method in row `label`."""

    method: str
    label: str
    budget: int | None
    tasks: tuple[TaskRetention, ...]
    drift: tuple[TextDrift, ...] = ()


class MethodGroups(Value):
    """The scores of groups of standard tasks by the method in row `label`."""

    method: str
    label: str
    budget: int | None
    groups: tuple[GroupScore, ...]


class MethodCarried(Value):
    """The score of what a method has found, on another base model.

    `change` is from that base model alone, on the table's task, and `chance` the accuracy of
    guessing.
    """

    method: str
    label: str
    budget: int | None
    base_model: str
    change: ScoreChange
    chance: float


class MethodMetric(Value):
    """Another metric of the method in row `label` than the compared score.

    `mean` is that of the scored seeds, with the limits of a typical seed on new items; None for one
    seed.
    """

    method: str
    label: str
    budget: int | None
    metric: str
    mean: float
    low: float | None
    high: float | None
    seed_scores: tuple[SeedScore, ...]


def metric_columns(metric: MethodMetric | None) -> dict[str, str | float | None]:
    """Return the columns of a method's other metric in tables of figures."""
    if metric is None:
        return {}
    return {
        "metric": metric.metric,
        "metric_mean": metric.mean,
        "metric_low": metric.low,
        "metric_high": metric.high,
    }


class TableComparison(Value):
    """The methods on one task and base model.

    `comparison` is None until something is scored. `controls` are trainings for the diagnoses,
    which are not compared. `carried` has the scores on other base models. `metrics` has the task's
    metric of every method if it is not the share of right items. `seen` has what the project saw of
    the methods in other jobs. `reports` has one report per cell of the comparison, and `frontiers`
    gain against retention where an old task was measured. `groups` has the scores of groups of
    standard tasks that are watched.
    """

    base_model: str
    task: str
    comparison: Comparison | None
    diagnoses: tuple[MethodDiagnosis, ...]
    missing: tuple[MissingScores, ...]
    forgetting: tuple[MethodForgetting, ...]
    methods: tuple[ComparedMethod, ...]
    controls: tuple[ComparedMethod, ...] = ()
    carried: tuple[MethodCarried, ...] = ()
    metrics: tuple[MethodMetric, ...] = ()
    seen: tuple[SeenSeeds, ...] = ()
    reports: tuple[Report, ...] = ()
    retention: tuple[MethodRetention, ...] = ()
    frontiers: tuple[Frontier, ...] = ()
    groups: tuple[MethodGroups, ...] = ()


NOTE_ORDER: tuple[TableWarningKind, ...] = (
    "not_comparable",
    "base_not_learned",
    "metric",
    "missing",
    "missing_seeds",
    "unread",
    "unknown_effort",
    "unequal_effort",
    "unpaired",
    "shared_bases",
    "few_items",
    "few_seeds",
    "sweep_at_edge",
    "imported_base",
)
"""Kinds of warnings, those that may change a finding most first."""


def with_reports(table: TableComparison) -> TableComparison:
    """Return the table with one report per cell, written from what it holds."""
    comparison = table.comparison
    if comparison is None:
        return table.model_copy(update={"reports": ()})
    moved = {one.label: one.moved for one in table.methods if one.moved is not None}
    notes = tuple(_short_notes(table))
    why = {cell.budget: _why(table, {row.label for row in cell.rows}) for cell in comparison.cells}
    reports = tuple(
        report_of(
            comparison,
            cell,
            moved=moved,
            why=why[cell.budget],
            warnings=notes,
            seen=table.seen,
        )
        for cell in comparison.cells
    )
    return table.model_copy(update={"reports": reports})


def _short_notes(table: TableComparison) -> Iterator[str]:
    """Yield one sentence per kind of warning, the most important kind first.

    A sweep whose best is at an end says nothing more of a method whose diagnosis is decided.
    """
    decided = {one.label for one in table.diagnoses if one.diagnosis.cause != "undecided"}
    decided |= {
        label
        for one in table.diagnoses
        if one.label in decided
        for label in one.diagnosis.equivalent
    }
    warnings = [
        one
        for one in _warnings(table)
        if one.kind != "sweep_at_edge" or not decided.issuperset(one.methods)
    ]
    for kind in NOTE_ORDER:
        ours = [one for one in warnings if one.kind == kind]
        if kind == "sweep_at_edge" and len(ours) > 1:
            labels = dict.fromkeys(label for one in ours for label in one.methods)
            names = listed([*map(method_in_sentence, labels)])
            yield f"The best learning rate or scale is at an end of its range for {names}."
        elif ours:
            more = f" {len(ours) - 1} more of this kind." if len(ours) > 1 else ""
            yield f"{ours[0].text}{more}"


def _why(table: TableComparison, labels: set[str]) -> str | None:
    """Return the diagnosis of the first failing method that has a cause."""
    decided = [
        one.diagnosis
        for one in table.diagnoses
        if one.label in labels and one.diagnosis.cause not in ("none", "undecided")
    ]
    return None if not decided else decided[0].text


def metric_of(table: TableComparison) -> str | None:
    """Return the metric that a table shows beside the score, if any."""
    return table.metrics[0].metric if table.metrics else None


def table_warnings(tables: Sequence[TableComparison]) -> tuple[TableWarning, ...]:
    """Return the warnings about the tables, in the order of the tables."""
    return tuple(warning for table in tables for warning in _warnings(table))


def sweeps_at_edge(method: ComparedMethod) -> Iterator[str]:
    """Yield a warning for learning rates or scales whose best is at an end.

    The best has the lowest mean training loss; trials in which any seed diverged do not count. A
    method with nothing to gain, at a validation accuracy of 99 %, has no warning, and neither have
    fewer than three values, which are no sweep.
    """
    ended = [trial for trial in method.sweep if not trial.diverged and not trial.eliminated]
    if any((trial.validation_accuracy or 0) >= NOTHING_TO_GAIN for trial in ended):
        return
    rates = _best_at_end(_lowest_losses(ended, lambda trial: trial.learning_rate), HIGHEST_RATE)
    if rates is not None:
        low, best, high = rates
        lowest = low / WIDER if best == low else min(t.learning_rate for t in method.sweep)
        highest = min(HIGHEST_RATE, high * WIDER) if best == high else high
        yield (
            f"{first_in_sentence(method.label)} has its lowest training loss at {best:.3g}, the "
            f"{'lowest' if best == low else 'highest'} learning rate whose trials finished, so a "
            "better rate may be beyond it. Try tuning.learning_rate_range "
            f"[{lowest:.3g}, {highest:.3g}]."
        )
    scales = _best_at_end(_lowest_losses(ended, lambda trial: trial.initial_scale), HIGHEST_SCALE)
    if scales is not None:
        low, best, high = scales
        wider = low / WIDER if best == low else min(HIGHEST_SCALE, high * WIDER)
        yield (
            f"{first_in_sentence(method.label)} has its lowest training loss at an initial scale "
            f"of {best:.3g}, the "
            f"{'lowest' if best == low else 'highest'} whose trials finished, so a better scale "
            f"may be beyond it. Add {wider:.3g} to tuning.initial_scales."
        )


def _lowest_losses(
    trials: Sequence[TriedTrial], setting: Callable[[TriedTrial], float]
) -> dict[float, float]:
    """Return the lowest final loss of the trials with each value of a setting."""
    losses: dict[float, float] = {}
    for trial in trials:
        if trial.final_loss is not None:
            value = setting(trial)
            losses[value] = min(losses.get(value, math.inf), trial.final_loss)
    return losses


def _best_at_end(losses: dict[float, float], limit: float) -> tuple[float, float, float] | None:
    """Return the lowest, the best and the highest value if the best is an end.

    None at `limit`, beyond which no spec can go.
    """
    if len(losses) < FEWEST_VALUES:
        return None
    low, *inside, high = sorted(losses)
    best = min(losses, key=lambda value: losses[value])
    is_limit = best == high and high >= limit
    if best in inside or is_limit or losses[best] >= min(losses[value] for value in inside):
        return None
    return low, best, high


def _unequal_steps(table: TableComparison) -> TableWarning | None:
    """Return a warning if the trainings differ in their steps.

    A voided table has none.
    """
    trained = [m for m in table.methods if m.parameters and not m.is_imported]
    steps = Counter(method.steps for method in trained)
    if table.comparison is None or table.comparison.voided or len(steps) < 2:
        return None
    usual = steps.most_common(1)[0][0]
    others = [method for method in trained if method.steps != usual]
    numbers = ", ".join(
        f"{method_in_sentence(method.label)} has {method.steps:,}" for method in others
    )
    return TableWarning(
        base_model=table.base_model,
        task=table.task,
        kind="unequal_effort",
        text=f"The numbers of steps differ: {numbers}, the others have {usual:,}.",
        methods=tuple(method.label for method in others),
    )


def _unknown_effort(table: TableComparison) -> TableWarning | None:
    """Return a warning if adapters were imported."""
    imported = tuple(method.label for method in table.methods if method.is_imported)
    if not imported:
        return None
    return TableWarning(
        base_model=table.base_model,
        task=table.task,
        kind="unknown_effort",
        text=(
            f"Imported, not trained here: {', '.join(map(method_in_sentence, imported))}. Data, "
            "steps and tuning of these adapters are unknown, so a difference may be one of effort "
            "and not of methods."
        ),
        methods=imported,
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
        for text in sweeps_at_edge(method):
            yield TableWarning(
                base_model=table.base_model,
                task=table.task,
                kind="sweep_at_edge",
                text=text,
                methods=(method.label,),
            )
    if (unequal := _unequal_steps(table)) is not None:
        yield unequal
    if (unknown := _unknown_effort(table)) is not None:
        yield unknown
    lacking = [one for one in table.missing if one.state != "skipped"]
    if lacking:
        yield TableWarning(
            base_model=table.base_model,
            task=table.task,
            kind="missing",
            text="Scores are missing: " + " ".join(dict.fromkeys(one.text for one in lacking)),
            methods=tuple(dict.fromkeys(one.method for one in lacking)),
        )
