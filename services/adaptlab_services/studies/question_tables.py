"""What a study with a question has run, as the planner reads it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import cast
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.plugins.metric import Metric
from adaptlab.questions.lengths import length_of
from adaptlab.questions.passes import (
    ComparisonPlace,
    MethodState,
    PassKind,
    PassState,
    TableState,
    TrainingPass,
    TriedRate,
)
from adaptlab.questions.rates import LARGEST_RATE, Tuned, tuning
from adaptlab.runs.events import ReplicateResult
from adaptlab.specs.resolved import UnreadSpec
from adaptlab.statistics.scores import Scores, nothing_right, scores_of
from adaptlab.studies.study import QuestionSpec
from adaptlab.studies.study_plan import Cell, PlannedJob, StudyPlan
from adaptlab_db.tables import StudyPass
from adaptlab_services.results.scored_jobs import ScoredJob, scored_jobs

STILL_FALLING = 0.9
"""The loss still falls if its end is below this share of that half way through the training."""

States = Mapping[int, PassState]


@dataclass(frozen=True, slots=True)
class History:
    """The passes of a study, in order, and the results of their jobs."""

    rows: tuple[StudyPass, ...]
    results: Mapping[UUID, ScoredJob]

    @property
    def states(self) -> States:
        """The states of the passes as stored, by number."""
        return {row.number: cast("PassState", row.state) for row in self.rows}


def history(session: Session, study_id: UUID) -> History:
    """Return the passes of a study with the results of those that have ended."""
    rows = tuple(
        session.scalars(
            select(StudyPass).where(StudyPass.study_id == study_id).order_by(StudyPass.number)
        )
    )
    return History(rows, scored_jobs(session, {row.job_id for row in rows}))


def tables(
    question: QuestionSpec, plan: StudyPlan, past: History, states: States
) -> tuple[TableState, ...]:
    """Return the state of every table, if the passes have these states.

    Passes that are not among `states` have not been planned yet.
    """
    jobs = {job.digest: job for job in plan.jobs}
    places: dict[ComparisonPlace, list[Cell]] = {}
    for cell in plan.cells:
        places.setdefault(place_of(cell), []).append(cell)
    by_cell: dict[tuple[ComparisonPlace, str], list[StudyPass]] = {}
    for row in past.rows:
        if row.number in states:
            by_cell.setdefault((_place(row), row.method), []).append(row)
    return tuple(
        _table(
            question,
            place,
            [_Row(c, jobs[c.digest], by_cell.get((place, c.method), [])) for c in cells],
            past,
            states,
        )
        for place, cells in places.items()
    )


def place_of(cell: Cell) -> ComparisonPlace:
    """Return the place where a cell's method is compared."""
    return ComparisonPlace(base_model=cell.base_model, task=cell.task, budget=cell.budget)


def _place(row: StudyPass) -> ComparisonPlace:
    return ComparisonPlace(base_model=row.base_model, task=row.task, budget=row.budget)


@dataclass(frozen=True, slots=True)
class _Row:
    """A cell of a table with its job and its passes."""

    cell: Cell
    job: PlannedJob
    passes: Sequence[StudyPass]


def _table(
    question: QuestionSpec,
    place: ComparisonPlace,
    rows: Sequence[_Row],
    past: History,
    states: States,
) -> TableState:
    """Return a table with the scores of the evidence that counts."""
    chance = rows[0].job.resolved.task.chance()
    methods = tuple(_method(row, past, states) for row in rows)
    table = TableState(place=place, methods=methods, chance=chance)
    length = length_of(table, question.at_most.times_longer)
    scored = [
        one.model_copy(update={"scores": _counted(row, now, length.times, past, states)})
        for row, one, now in zip(rows, methods, length.table.methods, strict=True)
    ]
    return table.model_copy(update={"methods": tuple(scored)})


def _method(row: _Row, past: History, states: States) -> MethodState:
    cell, resolved = row.cell, row.job.resolved
    trains = resolved.method.trains and (cell.trainable_parameters > 0 or resolved.method.is_search)
    # A grid up to the largest rate can exceed it by rounding.
    rates = sorted(min(trial.learning_rate, LARGEST_RATE) for trial in resolved.training.trials)
    return MethodState(
        label=cell.method,
        role=cell.role,
        rates=tuple(rates) if trains else (),
        steps=resolved.training.steps if trains else 0,
        passes=tuple(_pass(one, past.results, states[one.number]) for one in row.passes),
        scores=None,
    )


def _counted(
    row: _Row, method: MethodState, times: int, past: History, states: States
) -> Scores | None:
    """Return the scores of the seeds at the chosen rate and length, if any.

    Seeds at a rate that was chosen before a wider sweep are no evidence for another one.
    """
    tuned = tuning(method)
    if not isinstance(tuned, Tuned):
        return None
    counted = [
        one
        for one in row.passes
        if one.kind == "evidence"
        and states[one.number] == "done"
        and one.times_longer == times
        and (tuned.rate is None or one.rates == [tuned.rate])
    ]
    return _scores(row.cell, row.job, [past.results[one.job_id] for one in counted])


def _pass(row: StudyPass, results: Mapping[UUID, ScoredJob], state: PassState) -> TrainingPass:
    tried: tuple[TriedRate, ...] = ()
    if row.kind != "evidence" and state == "done":
        tried = _tried(results[row.job_id])
    return TrainingPass(
        number=row.number,
        kind=cast("PassKind", row.kind),
        method=row.method,
        seeds=tuple(row.seeds),
        rates=tuple(row.rates),
        replicate_steps=row.replicate_steps,
        state=state,
        tried=tried,
        times_longer=row.times_longer,
    )


def _tried(job: ScoredJob) -> tuple[TriedRate, ...]:
    task = None if isinstance(job.resolved, UnreadSpec) else job.resolved.task
    metric = None if task is None else task.own_metric()
    is_lowest = metric is not None and metric.lower_is_better
    by_rate: dict[float, list[ReplicateResult]] = {}
    for replicate in job.replicates:
        by_rate.setdefault(replicate.learning_rate, []).append(replicate)
    return tuple(
        TriedRate(
            learning_rate=rate,
            accuracy=fmean(_validated(one, is_accuracy=is_lowest) for one in by_rate[rate]),
            loss=_mean_loss(by_rate[rate]),
            seeds=len(by_rate[rate]),
            falls=_falls(by_rate[rate], job.half_losses),
            lowest=_lowest(by_rate[rate], metric) if metric is not None and is_lowest else None,
        )
        for rate in sorted(by_rate)
    )


def _validated(one: ReplicateResult, *, is_accuracy: bool) -> float:
    metric = None if is_accuracy else one.validation_metric
    return (one.validation_accuracy if metric is None else metric) or 0.0


def _lowest(replicates: Iterable[ReplicateResult], metric: Metric) -> float:
    values = (one.validation_metric for one in replicates)
    return fmean(metric.worst if value is None else value for value in values)


def _mean_loss(replicates: Iterable[ReplicateResult]) -> float | None:
    losses = [one.final_loss for one in replicates if one.status != "diverged"]
    known = [loss for loss in losses if loss is not None]
    return fmean(known) if known else None


def _falls(replicates: Iterable[ReplicateResult], halves: Mapping[int, float]) -> bool:
    pairs = [(one.final_loss, halves.get(one.replicate)) for one in replicates]
    known = [(last, half) for last, half in pairs if last is not None and half is not None]
    if not known:
        return False
    return fmean(last for last, _ in known) < STILL_FALLING * fmean(half for _, half in known)


def _scores(cell: Cell, job: PlannedJob, ended: Sequence[ScoredJob]) -> Scores | None:
    """Return the scores of all seeds.

    A seed that diverged answers nothing correctly.
    """
    if not ended:
        return None
    evaluations = [evaluation for one in ended for evaluation in one.evaluations]
    items = evaluations[0].total if evaluations else job.resolved.test_items
    scored = {evaluation.seed for evaluation in evaluations}
    diverged = [seed for one in ended for seed in one.seeds if seed not in scored]
    evaluations += [nothing_right(seed, items) for seed in diverged]
    return scores_of(
        cell.method,
        evaluations,
        parameters=cell.trainable_parameters,
        trials=1,
        bases={
            seed: base
            for one in ended
            for seed, base in zip(one.spec.seeds, one.spec.base_replicates, strict=True)
        },
    )
