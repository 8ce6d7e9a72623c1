"""Writing of a run's reports under its fence.

A repeated batch only repeats its events.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from psycopg.errors import UniqueViolation
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Integer,
    Text,
    TextClause,
    Uuid,
    and_,
    bindparam,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import Insert
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningUpdate

from adaptlab.runs import events as results
from adaptlab.runs.item_statistics import from_text
from adaptlab_db.tables import (
    AttemptRow,
    AttentionMapRow,
    AttentionSummaryRow,
    CheckpointRow,
    EvaluationRow,
    GivenAnswers,
    ItemOutcome,
    Job,
    JobEvent,
    Json,
    MeasureRow,
    Replicate,
    ShownItems,
    Table,
    TheoryReportRow,
    TrainingStateRow,
)
from adaptlab_services.errors import LeaseLost
from adaptlab_services.leases import report_checks
from adaptlab_services.lifecycle import training_states
from adaptlab_services.lifecycle.held_leases import AS_GIVEN, Lease, LeaseParameters, given, held
from adaptlab_services.lifecycle.transitions import append_event

FEW_POINTS = 100
LARGEST_STEP = 2**31 - 1  # of the column; the steps of a training are known only with the lease

E = TypeVar("E")
Fence = Callable[[LeaseParameters], list[ColumnElement[bool]]]
Row = dict[str, Any]  # column name to a value of that column's type


def write(
    session: Session,
    lease: Lease,
    events: Sequence[results.Event],
    artifacts: Mapping[Path, str],
) -> None:
    """Write a batch of events of one attempt.

    Args:
        session: a unit of work in which nothing has been done yet.
        lease: the lease of the attempt to which the events belong.
        events: the events, in the order in which they happened.
        artifacts: the SHA-256 of the stored content of every path in `events`.

    Raises:
        LeaseLost: if the lease no longer holds; nothing is written.
        ReportRefused: for events that no run of the job can report; the caller rolls back.
    """
    write_as_told(session, lease, events, artifacts, report_checks.check)


Check = Callable[[Session, Lease, Sequence[results.Event], Mapping[Path, str]], None]


def write_as_told(
    session: Session,
    lease: Lease,
    events: Sequence[results.Event],
    artifacts: Mapping[Path, str],
    check: Check,
) -> None:
    """Write a batch as `write` does; `check` is called after the fence."""
    step = max((e.step for e in _of(events, results.Progress) if e.phase == "training"), default=0)
    has_stepped = _enter(session, lease, min(step, LARGEST_STEP), _job_events(events))
    check(session, lease, events, artifacts)
    if step and not has_stepped:
        _note_first_step(session, lease)
    for started in _of(events, results.Started):
        _write_environment(session, lease, started)
    for finished in _of(events, results.Finished):
        _write_usage(session, lease, finished)
    _write_metrics(session, lease, _of(events, results.Metrics))
    _write_replicates(session, lease, _of(events, results.ReplicatesDecided))
    _write_evaluations(session, lease, _of(events, results.Evaluated))
    _write_shown(session, lease, _of(events, results.ItemsShown))
    _write_given(session, lease, _of(events, results.AnswersGiven))
    for captured in _of(events, results.AttentionCaptured):
        _write_attention(session, lease, captured.attention, artifacts[captured.path])
    _write_theory(session, lease, _of(events, results.TheoryChecked))
    for saved in _of(events, results.TrainingSaved):
        training_states.save(session, lease, saved.step, artifacts[saved.path])
    for written in _of(events, results.CheckpointWritten):
        _write_checkpoint(session, lease, written.checkpoint, artifacts[written.path])


def _enter(session: Session, lease: Lease, step: int, events: Sequence[tuple[str, Json]]) -> bool:
    """Pass the fence by one guarded UPDATE, before anything else is written.

    Returns True if the attempt's first step was recorded before.
    """
    values = given(lease) | {"step_now": step, "events_now": len(events)}
    entered = session.execute(_entering(held), values).one_or_none()
    if entered is None:
        raise LeaseLost(lease.job_id, lease.attempt)
    first = entered.event_sequence - len(events) + 1
    rows = [
        {
            "job_id": lease.job_id,
            "sequence": first + index,
            "type": kind,
            "attempt": lease.attempt,
            "data": data,
        }
        for index, (kind, data) in enumerate(events)
    ]
    if rows:
        session.execute(insert(JobEvent), rows)
    return bool(entered.has_stepped)


@cache
def _entering(fence: Fence) -> ReturningUpdate[int, bool]:
    """The statement of `_enter`; kept, one per fence, as `leases._renewal` is."""
    first_step_at = (
        select(AttemptRow.first_step_at)
        .where(AttemptRow.job_id == AS_GIVEN.job_id, AttemptRow.attempt == AS_GIVEN.attempt)
        .scalar_subquery()
    )
    return (
        update(Job)
        .where(*fence(AS_GIVEN))
        .values(
            step=func.greatest(Job.step, bindparam("step_now", type_=Integer())),
            event_sequence=Job.event_sequence + bindparam("events_now", type_=Integer()),
        )
        .returning(Job.event_sequence, first_step_at.is_not(None).label("has_stepped"))
        .execution_options(synchronize_session=False)
    )


def _job_events(events: Sequence[results.Event]) -> list[tuple[str, Json]]:
    """Return the events of the job that a batch leads to.

    They are kinds of results, with counts.
    """
    news: list[tuple[str, Json]] = [
        ("started", {"replicates": e.replicates, "environment": e.environment.model_dump()})
        for e in _of(events, results.Started)
    ]
    news += [
        ("not_carried", e.model_dump(exclude={"event"})) for e in _of(events, results.NotCarried)
    ]
    counted: Sequence[tuple[str, int]] = (
        ("replicates", sum(len(e.replicates) for e in _of(events, results.ReplicatesDecided))),
        ("evaluations", len(_of(events, results.Evaluated))),
        ("answers", len(_of(events, results.AnswersGiven))),
        ("attention", len(_of(events, results.AttentionCaptured))),
        ("checkpoints", len(_of(events, results.CheckpointWritten))),
        ("theory", len(_of(events, results.TheoryChecked))),
    )
    return news + [(kind, {"count": count}) for kind, count in counted if count]


def _note_first_step(session: Session, lease: Lease) -> None:
    is_first = session.execute(
        update(AttemptRow)
        .where(*_attempt(lease), AttemptRow.first_step_at.is_(None))
        .values(first_step_at=func.clock_timestamp())
        .returning(AttemptRow.attempt)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if is_first:
        append_event(session, lease.job_id, "first_step", {}, lease.attempt)


_DECIDING = ("device", "precision", "compiled", "torch_version", "code_version")
"""Members of an environment that can change the last bits of what is computed."""


def _note_other_computation(
    session: Session, lease: Lease, environment: results.Environment
) -> None:
    """Append an event if a resumed training goes on in another environment."""
    earlier = session.scalar(
        select(AttemptRow.environment)
        .join(
            TrainingStateRow,
            and_(
                TrainingStateRow.job_id == AttemptRow.job_id,
                TrainingStateRow.attempt == AttemptRow.attempt,
            ),
        )
        .where(AttemptRow.job_id == lease.job_id, AttemptRow.attempt < lease.attempt)
    )
    now = environment.model_dump()
    changed = [name for name in _DECIDING if earlier and earlier.get(name) != now[name]]
    if earlier and changed:
        was = {name: earlier.get(name) for name in changed}
        members: Json = {"was": was, "now": {name: now[name] for name in changed}}
        append_event(session, lease.job_id, "computes_otherwise", members, lease.attempt)


def _write_environment(session: Session, lease: Lease, started: results.Started) -> None:
    _note_other_computation(session, lease, started.environment)
    session.execute(
        update(AttemptRow)
        .where(*_attempt(lease))
        .values(environment=started.environment.model_dump())
        .execution_options(synchronize_session=False)
    )


def _write_usage(session: Session, lease: Lease, finished: results.Finished) -> None:
    session.execute(
        update(AttemptRow)
        .where(*_attempt(lease))
        .values(usage=finished.usage.model_dump())
        .execution_options(synchronize_session=False)
    )


def _write_metrics(session: Session, lease: Lease, batches: Sequence[results.Metrics]) -> None:
    # The last report of a point counts; a statement cannot change the same row twice.
    points = {(p.name, p.replicate, p.step): p.value for batch in batches for p in batch.points}
    if not points:
        return
    names, replicates, steps = zip(*points, strict=True)
    different = sorted(set(names))
    places = {name: place for place, name in enumerate(different, start=1)}
    columns = {
        "job": lease.job_id,
        "attempt": lease.attempt,
        "names": different,
        "places": _array([places[name] for name in names]),
        "replicates": _array(replicates),
        "steps": _array(steps),
        "values": _array(points.values()),
    }
    if len(points) <= FEW_POINTS:
        session.execute(_POINTS, columns)
        return
    try:
        with session.begin_nested():
            session.execute(_NEW_POINTS, columns)
    except IntegrityError as error:
        if not isinstance(error.orig, UniqueViolation):
            raise
        session.execute(_POINTS, columns)


# One parameter per column, for any number of points: no limit on their number, and one plan. The
# long ones are text, because the driver needs 2 ms to convert lists of a thousand numbers.
_INSERT = """
    INSERT INTO metric_points (job_id, attempt, name, replicate, step, value)
    SELECT :job, :attempt, (CAST(:names AS text[]))[place], replicate, step, value
    FROM unnest(
        CAST(CAST(:places AS text) AS int[]),
        CAST(CAST(:replicates AS text) AS int[]),
        CAST(CAST(:steps AS text) AS int[]),
        CAST(CAST(:values AS text) AS float8[])
    ) AS points (place, replicate, step, value)"""
_REPLACE = """
    ON CONFLICT (job_id, attempt, name, replicate, step) DO UPDATE SET value = excluded.value"""


def _statement(sql: str) -> TextClause:
    typed = bindparam("names", type_=ARRAY(Text)), bindparam("job", type_=Uuid[UUID]())
    return text(sql).bindparams(*typed)


# Points are almost always new, and for many of them a check for old ones takes as long as the
# insertion. For a few, the check takes less time than a savepoint.
_NEW_POINTS = _statement(_INSERT)
_POINTS = _statement(_INSERT + _REPLACE)


def _array(numbers: Iterable[float | None]) -> str:
    """Format numbers as Postgres writes an array."""
    return "{" + ",".join("NULL" if number is None else repr(number) for number in numbers) + "}"


def _write_replicates(
    session: Session, lease: Lease, decisions: Sequence[results.ReplicatesDecided]
) -> None:
    last = {r.replicate: r for decision in decisions for r in decision.replicates}
    rows: list[Row] = [_of_lease(lease) | result.model_dump() for result in last.values()]
    if rows:
        session.execute(_replacing_rows(Replicate, rows, ()))


def _write_evaluations(
    session: Session, lease: Lease, evaluated: Sequence[results.Evaluated]
) -> None:
    last = {_key(e.evaluation.model_dump()): e.evaluation for e in evaluated}
    if not last:
        return
    rows: list[Row] = [
        _of_lease(lease)
        | evaluation.model_dump(exclude={"outcomes", "clusters", "measures"})
        | {
            "task_name": str(evaluation.task["name"]),
            "base_model": evaluation.base_model or "",
            "effective_items": evaluation.effective_items,
        }
        for evaluation in last.values()
    ]
    unique = ("replicate", "split", "attached", "task", "base_model")
    statement = _replacing_rows(EvaluationRow, rows, unique).returning(
        EvaluationRow.id,
        EvaluationRow.replicate,
        EvaluationRow.split,
        EvaluationRow.attached,
        EvaluationRow.task,
        EvaluationRow.base_model,
    )
    ids = {row["id"]: last[_key(row)] for row in session.execute(statement).mappings()}
    outcomes: list[Row] = [
        {
            "evaluation_id": number,
            "bits": bytes.fromhex(evaluation.outcomes),
            "clusters": list(evaluation.clusters) or None,
        }
        for number, evaluation in ids.items()
    ]
    session.execute(_replacing_rows(ItemOutcome, outcomes, ()))
    measures: list[Row] = [
        {
            "evaluation_id": number,
            "metric": measure.metric,
            "value": measure.value,
            "statistics": None if measure.statistics is None else from_text(measure.statistics),
            "floor": None if measure.floor is None else measure.floor.model_dump(),
            "signature": measure.signature,
        }
        for number, evaluation in ids.items()
        for measure in evaluation.measures
    ]
    if measures:
        session.execute(_replacing_rows(MeasureRow, measures, ()))


def _write_shown(session: Session, lease: Lease, shown: Sequence[results.ItemsShown]) -> None:
    last = {event.task_place: event for event in shown}
    rows: list[Row] = [
        _of_lease(lease) | event.model_dump(mode="json", exclude={"event"})
        for event in last.values()
    ]
    if rows:
        session.execute(_replacing_rows(ShownItems, rows, ()))


def _write_given(session: Session, lease: Lease, given: Sequence[results.AnswersGiven]) -> None:
    last = {(event.task_place, event.replicate, event.attached): event for event in given}
    rows: list[Row] = [
        _of_lease(lease) | event.model_dump(mode="json", exclude={"event"})
        for event in last.values()
    ]
    if rows:
        session.execute(_replacing_rows(GivenAnswers, rows, ()))


def _write_attention(
    session: Session, lease: Lease, attention: results.AttentionPatterns, sha256: str
) -> None:
    of_samples = ("tokens", "predictions", "texts")
    apart = {"summaries", *of_samples}
    document = attention.model_dump(mode="json")
    row = (
        _of_lease(lease)
        | {name: value for name, value in document.items() if name not in apart}
        | {
            "artifact_sha256": sha256,
            "samples": {name: document[name] for name in of_samples},
        }
    )
    statement = _replacing_rows(AttentionMapRow, [row], ("replicate", "source"))
    map_id = session.execute(statement.returning(AttentionMapRow.id)).scalar_one()
    summaries: list[Row] = [{"map_id": map_id} | s.model_dump() for s in attention.summaries]
    if summaries:
        session.execute(_replacing_rows(AttentionSummaryRow, summaries, ()))


def _write_checkpoint(
    session: Session, lease: Lease, checkpoint: results.Checkpoint, sha256: str
) -> None:
    row = _of_lease(lease) | checkpoint.model_dump(mode="json") | {"artifact_sha256": sha256}
    session.execute(_replacing_rows(CheckpointRow, [row], ("replicate", "kind")))


def _write_theory(session: Session, lease: Lease, checked: Sequence[results.TheoryChecked]) -> None:
    last = {event.place: event.check for event in checked}
    rows: list[Row] = [
        _of_lease(lease) | {"place": place} | check.model_dump(mode="json")
        for place, check in last.items()
    ]
    if rows:
        session.execute(_replacing_rows(TheoryReportRow, rows, ()))


def _replacing_rows(table: type[Table], rows: Sequence[Row], unique: Sequence[str]) -> Insert:
    """Return one statement that inserts all rows.

    It overwrites existing rows with the same key. The key is job, attempt and the columns in
    `unique`; without these, the primary key.
    """
    statement = upsert(table).values(list(rows))
    return _replacing(statement, table, list(rows[0]), unique)


def _replacing(
    statement: Insert, table: type[Table], written: Sequence[str], unique: Sequence[str] = ()
) -> Insert:
    key = ["job_id", "attempt", *unique] if unique else [c.name for c in _primary_key(table)]
    changed = {name: statement.excluded[name] for name in written if name not in key}
    return statement.on_conflict_do_update(index_elements=key, set_=changed)


def _primary_key(table: type[Table]) -> Sequence[Any]:  # SQLAlchemy's columns of any type
    return tuple(table.__table__.primary_key)


def _attempt(lease: Lease) -> tuple[Any, ...]:
    return AttemptRow.job_id == lease.job_id, AttemptRow.attempt == lease.attempt


def _of_lease(lease: Lease) -> Row:
    return {"job_id": lease.job_id, "attempt": lease.attempt}


def _key(evaluation: Mapping[Any, Any]) -> tuple[int, str, bool, str, str]:
    task = json.dumps(evaluation["task"], sort_keys=True)
    on = evaluation["base_model"] or ""
    return evaluation["replicate"], evaluation["split"], evaluation["attached"], task, on


def _of(events: Sequence[results.Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]
