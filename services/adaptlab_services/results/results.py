"""Curves, replicates, attempts and scores of a job's latest attempt."""

import json
import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session, aliased

from adaptlab.comparisons.drift import drifts
from adaptlab.comparisons.group_scores import GroupScore, group_scores
from adaptlab.comparisons.retention import BaseScores, retention
from adaptlab.comparisons.task_retention import TaskRetention, TextDrift
from adaptlab.plugins.metric import FIRST_VERSION
from adaptlab.runs.events import Confusion, Measure, ReplicateResult, Usage
from adaptlab.runs.theory_report import Check
from adaptlab.specs.spec import TaskGroup
from adaptlab_answers.results import (
    Attempts,
    AttemptView,
    Curve,
    CurvesView,
    EvaluationLinks,
    Evaluations,
    EvaluationView,
    NotCarriedView,
    Outcomes,
    Replicates,
    TheoryChecks,
)
from adaptlab_db.tables import (
    AttemptRow,
    BaseModel,
    EvaluationRow,
    ItemOutcome,
    Job,
    JobEvent,
    MetricPointRow,
    Replicate,
    TheoryReportRow,
    Worker,
)
from adaptlab_services.errors import Absent
from adaptlab_services.lifecycle.measures import (
    caution_of,
    measures_of,
    values_of,
    with_metric,
)
from adaptlab_services.results.scored_jobs import adapted_scores

LARGEST_CURVE = 10_000


def latest_attempt(session: Session, job_id: UUID) -> int:
    """Return the number of a job's latest attempt; raises `Absent`."""
    attempt = session.execute(select(Job.attempt).where(Job.id == job_id)).scalar_one_or_none()
    if attempt is None:
        raise Absent("job", job_id)
    return attempt


def metrics(
    session: Session,
    job_id: UUID,
    names: Collection[str] = (),
    replicates: Collection[int] = (),
    max_points: int = 1000,
) -> CurvesView:
    """Return the learning curves, thinned to about `max_points` each.

    Args:
        session: the caller's unit of work.
        job_id: the job.
        names: only these metrics; empty means all.
        replicates: only these replicates; empty means all.
        max_points: at least 2 and at most `LARGEST_CURVE`.
    """
    attempt = latest_attempt(session, job_id)
    conditions = [MetricPointRow.job_id == job_id, MetricPointRow.attempt == attempt]
    if names:
        conditions.append(MetricPointRow.name.in_(names))
    if replicates:
        conditions.append(MetricPointRow.replicate.in_(replicates))
    rows = session.execute(_thinned(conditions, max_points)).all()
    points: dict[tuple[str, int, int], list[tuple[int, float | None]]] = {}
    for row in rows:
        key = (row.name, row.replicate, row.total)
        points.setdefault(key, []).append((row.step, _finite(row.value)))
    return CurvesView(
        data=tuple(_curve(key, curve) for key, curve in points.items()), attempt=attempt
    )


def _thinned(
    conditions: list[ColumnElement[bool]], max_points: int
) -> Select[str, int, int, float | None, int]:
    """Select every n-th point of each curve, and its last."""
    curve = (MetricPointRow.name, MetricPointRow.replicate)
    number = func.row_number().over(partition_by=curve, order_by=MetricPointRow.step)
    points = (
        select(
            MetricPointRow.name,
            MetricPointRow.replicate,
            MetricPointRow.step,
            MetricPointRow.value,
            (number - 1).label("place"),
            func.count().over(partition_by=curve).label("total"),
        )
        .where(*conditions)
        .subquery()
    )
    gaps = points.c.total + (max_points - 3)  # makes the integer division below round up
    stride = func.greatest(gaps // (max_points - 1), 1)
    is_kept = (func.mod(points.c.place, stride) == 0) | (points.c.place == points.c.total - 1)
    columns = (points.c.name, points.c.replicate, points.c.step, points.c.value, points.c.total)
    return select(*columns).where(is_kept).order_by(*columns[:3])


def replicates(session: Session, job_id: UUID) -> Replicates:
    """Return the results of the latest attempt's replicates."""
    attempt = latest_attempt(session, job_id)
    rows = session.execute(
        select(Replicate)
        .where(Replicate.job_id == job_id, Replicate.attempt == attempt)
        .order_by(Replicate.replicate)
    ).scalars()
    fields = tuple(ReplicateResult.model_fields)
    data = tuple(
        ReplicateResult.model_validate({name: getattr(row, name) for name in fields})
        for row in rows
    )
    return Replicates(data=data, attempt=attempt)


def attempts(session: Session, job_id: UUID) -> Attempts:
    """Return every attempt at a job, with its host, environment and usage."""
    latest_attempt(session, job_id)
    rows = session.execute(
        select(AttemptRow, Worker.host)
        .outerjoin(Worker, Worker.id == AttemptRow.worker_id)
        .where(AttemptRow.job_id == job_id)
        .order_by(AttemptRow.attempt)
    )
    return Attempts(
        data=tuple(
            AttemptView(
                attempt=row.attempt,
                worker_id=row.worker_id,
                host=host,
                started_at=row.started_at,
                first_step_at=row.first_step_at,
                ended_at=row.ended_at,
                outcome=row.outcome,
                reason=row.reason,
                error=row.error,
                environment=row.environment,
                usage=None if row.usage is None else Usage.model_validate(row.usage),
            )
            for row, host in rows
        )
    )


def job_seconds(session: Session, job_ids: Collection[UUID]) -> dict[UUID, float]:
    """Return the seconds of training and evaluation by job, in all attempts.

    An attempt that was paused or failed counts from its first step to its end. Jobs whose latest
    attempt has no measurement are left out.
    """
    is_latest = (AttemptRow.attempt == Job.attempt).label("is_latest")
    rows = session.execute(
        select(AttemptRow.job_id, AttemptRow.usage, is_latest)
        .add_columns(AttemptRow.first_step_at, AttemptRow.ended_at)
        .join(Job, Job.id == AttemptRow.job_id)
        .where(Job.id.in_(job_ids))
    )
    seconds: dict[UUID, float] = defaultdict(float)
    measured: set[UUID] = set()
    for row in rows:
        if row.usage is not None:
            usage = Usage.model_validate(row.usage)
            seconds[row.job_id] += usage.training_seconds + usage.evaluation_seconds
            if row.is_latest:
                measured.add(row.job_id)
        elif row.first_step_at is not None and row.ended_at is not None:
            seconds[row.job_id] += (row.ended_at - row.first_step_at).total_seconds()
    return {job_id: seconds[job_id] for job_id in measured}


def evaluations(session: Session, job_id: UUID, attached: bool | None = None) -> Evaluations:
    """Return the scores of the latest attempt.

    If `attached` is true, only scores with the adaptation attached, as all scores of a base model
    are; if false, only those of the base model on its own. None returns both, the attached ones
    of each task first. Scores on other base models come last.
    """
    attempt = latest_attempt(session, job_id)
    conditions = [EvaluationRow.job_id == job_id, EvaluationRow.attempt == attempt]
    if attached is not None:
        conditions.append(EvaluationRow.attached.is_(attached))
    rows = (
        session.execute(
            select(EvaluationRow)
            .where(*conditions)
            .order_by(
                EvaluationRow.base_model,
                EvaluationRow.task_name,
                EvaluationRow.attached.desc(),
                EvaluationRow.id,
            )
        )
        .scalars()
        .all()
    )
    measures = measures_of(session, with_metric(rows), with_statistics=False)
    kept, drift = _kept(session, job_id, rows) if attached is None else ((), ())
    return Evaluations(
        data=tuple(_evaluation(row, measures.get(row.id, ())) for row in rows),
        attempt=attempt,
        not_carried=_not_carried(session, job_id, attempt),
        retention=kept,
        drift=drift,
        groups=groups(session, job_id) if attached is None else (),
    )


def metric_cautions(session: Session, job_id: UUID) -> tuple[str, ...]:
    """Return what to know of a job's metrics before reading their values.

    They are those of the adapted model, or of a trained base model, on all seeds.
    """
    row = EvaluationRow
    rows = session.execute(
        select(row.id, row.total, row.task).where(
            row.job_id == job_id,
            row.attempt == latest_attempt(session, job_id),
            row.attached,
            row.base_model == "",
        )
    ).all()
    measures = measures_of(session, with_metric(rows))
    by_task: dict[str, list[tuple[Measure, int]]] = defaultdict(list)
    for found in rows:
        own = (
            (measure, found.total)
            for measure in measures.get(found.id, ())
            if measure.metric == found.task.get("metric")
        )
        by_task[json.dumps(found.task, sort_keys=True)] += own
    texts = map(caution_of, by_task.values())
    return tuple(dict.fromkeys(text for text in texts if text is not None))


def _kept(
    session: Session, job_id: UUID, rows: Sequence[EvaluationRow]
) -> tuple[tuple[TaskRetention, ...], tuple[TextDrift, ...]]:
    """Return the retention of old tasks, and the drift on neutral texts.

    Outcomes are only read if there is anything but the new task.
    """
    spec = Job.resolved_spec
    new, mode = session.execute(select(spec["task"], spec["mode"]).where(Job.id == job_id)).one()
    if all(row.attached or row.task == new or row.base_model for row in rows):
        return (), ()
    scored = adapted_scores(session, [job_id], detached=True)[job_id]
    of_base = _of_base(session, job_id)
    found = retention(scored, new, mode=mode or "always_on", of_base=of_base)
    return found, drifts(scored)


def groups(session: Session, job_id: UUID) -> tuple[GroupScore, ...]:
    """Return the scores of groups; outcomes are only read if there are any."""
    spec = Job.resolved_spec
    staged, tasks = session.execute(
        select(spec["evaluation_groups"], spec["evaluation_tasks"]).where(Job.id == job_id)
    ).one()
    if not staged:
        return ()
    known = [TaskGroup.model_validate(one) for one in staged]
    names = {tasks[place]["name"] for one in known for place in one.tasks}
    is_member = EvaluationRow.task_name.in_(names)
    scored = adapted_scores(session, [job_id], is_member, detached=True).get(job_id, [])
    return group_scores(known, tasks, scored)


def _of_base(session: Session, job_id: UUID) -> BaseScores | None:
    """Return the scores of the job that trained the base model, if any.

    Another base model that has taken its name since is none.
    """
    made_here = (BaseModel.name == Job.base_model) & (BaseModel.project_id == Job.project_id)
    spec, base = Job.resolved_spec, aliased(Job)
    found = session.execute(
        select(BaseModel.job_id, spec["seeds"], spec["base_replicates"])
        .join(BaseModel, made_here)
        .join(base, base.id == BaseModel.job_id)
        .where(Job.id == job_id, base.spec_digest == spec["base_digest"].as_string())
    ).one_or_none()
    if found is None:
        return None
    base_job, seeds, replicates = found
    own = adapted_scores(session, [base_job]).get(base_job, [])
    return BaseScores(own, dict(zip(seeds, replicates, strict=True)))


def _not_carried(session: Session, job_id: UUID, attempt: int) -> tuple[NotCarriedView, ...]:
    """Return the prompts without a score on another base model.

    One that was reported twice counts once.
    """
    told = session.scalars(
        select(JobEvent.data)
        .where(
            JobEvent.job_id == job_id,
            JobEvent.attempt == attempt,
            JobEvent.type == "not_carried",
        )
        .order_by(JobEvent.sequence)
    )
    unique = {(data["base_model"], data["replicate"]): data for data in told}
    return tuple(NotCarriedView.model_validate(data) for data in unique.values())


def outcomes(session: Session, job_id: UUID, evaluation_id: int) -> Outcomes:
    """Return the per-item outcomes of one evaluation; raises `Absent`."""
    row = session.execute(
        select(EvaluationRow.id, EvaluationRow.total, ItemOutcome.bits)
        .join(ItemOutcome, ItemOutcome.evaluation_id == EvaluationRow.id)
        .where(EvaluationRow.job_id == job_id, EvaluationRow.id == evaluation_id)
    ).one_or_none()
    if row is None:
        raise Absent("evaluation", evaluation_id)
    return Outcomes(evaluation_id=row.id, total=row.total, bits=row.bits)


def theory(session: Session, job_id: UUID) -> TheoryChecks:
    """Return the latest attempt's theory checks; empty for other kinds of job."""
    attempt = latest_attempt(session, job_id)
    rows = session.execute(
        select(TheoryReportRow)
        .where(TheoryReportRow.job_id == job_id, TheoryReportRow.attempt == attempt)
        .order_by(TheoryReportRow.place)
    ).scalars()
    fields = tuple(Check.model_fields)
    data = tuple(
        Check.model_validate({name: getattr(row, name) for name in fields}) for row in rows
    )
    return TheoryChecks(data=data, attempt=attempt)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _curve(key: tuple[str, int, int], points: list[tuple[int, float | None]]) -> Curve:
    name, replicate, total = key
    return Curve(
        name=name,
        replicate=replicate,
        steps=tuple(step for step, _ in points),
        values=tuple(value for _, value in points),
        total_points=total,
    )


def _evaluation(row: EvaluationRow, measures: Sequence[Measure]) -> EvaluationView:
    confusion = None if row.confusion is None else Confusion.model_validate(row.confusion)
    return EvaluationView(
        id=row.id,
        replicate=row.replicate,
        seed=row.seed,
        task=row.task,
        split=row.split,
        attached=row.attached,
        correct=row.correct,
        total=row.total,
        accuracy=row.correct / row.total,
        confusion=confusion,
        loss=row.loss,
        measures=values_of(row, measures),
        signatures={one.metric: one.signature or FIRST_VERSION for one in measures},
        effective_items=row.effective_items,
        base_model=row.base_model or None,
        links=EvaluationLinks(outcomes=f"/v1/jobs/{row.job_id}/evaluations/{row.id}/outcomes"),
    )
