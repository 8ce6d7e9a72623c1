"""Visibility of rows by project, enforced in every statement.

A session sees the rows of some projects, or none.

One mechanism below all queries. A guarded session has a list of visible projects. Every statement
gets the condition for every table that belongs to a project, by itself or through a job or study.
A guarded session without a list cannot touch these tables. Neither can a statement to which the
condition could not be added: the text of every statement is checked before it is sent.

Reads also get what other projects share with the visible ones: the rows of shared studies, and of
the jobs in the view `shared_jobs`. Only sessions with a project that receives shares ask for it, so
that others keep the plans of their statements. Visitors by a link read one study in the same way.
Changes never get it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Insert,
    Select,
    TextClause,
    Uuid,
    and_,
    any_,
    column,
    event,
    func,
    literal,
    or_,
    select,
    table,
)
from sqlalchemy.orm import ORMExecuteState, Session, sessionmaker, with_loader_criteria
from sqlalchemy.orm.session import SessionTransaction
from sqlalchemy.sql.dml import UpdateBase

from adaptlab_db.tables import (
    AttentionMapRow,
    BaseModel,
    EvaluationRow,
    Job,
    JobMetric,
    Study,
    StudyJob,
    StudyPass,
    StudyShare,
    Table,
)

VISIBLE = "visible"
"""The member of a session's `info` with the ids of the visible projects, or None for all."""
RECEIVING = "receiving"
"""The member of a session's `info` with those visible projects that others share something with.

Or with a `LinkedStudy`, which the session reads besides.
"""
ACROSS_PROJECTS: Mapping[str, Any] = MappingProxyType({"adaptlab_across_projects": True})
"""Execution options of a statement that reads rows of one owner in all projects."""

OPEN = frozenset({
    "projects", "users", "memberships", "tokens", "browser_sessions",  # by role
    "audit_entries",  # by role
    "usage_counts", "hub_tokens",  # by user
    "artifacts", "artifact_chunks",  # by digest, which only visible rows name
    "comparison_results",  # by digest of inputs, which only visible rows give
    "spec_numbers",  # only to look up jobs, whose visibility is checked
    "idempotency_keys",  # by owner; the visibility of their jobs and studies is checked
    "uploads", "upload_chunks",  # by owner
    "workers", "attempt_counts", "claim_counts",  # of the server
})  # fmt: skip
"""Tables that belong to no project."""

_SHARED_JOBS = table(
    "shared_jobs", column("project_id", BigInteger), column("job_id", Uuid)
)  # a view, see migrations/initial/functions.sql
_GUARD = "adaptlab_guard"
_UNTOLD = "nothing"
_PARENTS: Mapping[str, Any] = {  # Any: classes of tables
    "job_id": Job,
    "study_id": Study,
    "evaluation_id": EvaluationRow,
    "map_id": AttentionMapRow,
}
_NAMED = r'\s+(?:ONLY\s+)?(?:"?public"?\s*\.\s*)?"?(\w+)\b"?(?!\.)'
_READS = re.compile(rf"(?:FROM|JOIN|USING|TABLE|COPY|,){_NAMED}(?:\s+AS\s+(\w+))?", re.IGNORECASE)
_CHANGES = re.compile(rf"(?:UPDATE|MERGE\s+INTO|TRUNCATE){_NAMED}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LinkedStudy:
    """A study that a link shares, with the jobs that can be read with it."""

    study_id: UUID
    job_ids: tuple[UUID, ...]


Receiving = tuple[int, ...] | LinkedStudy
"""Projects that others share something with, or what a link shares."""


class NotVisible(RuntimeError):
    """A statement that would read other than the visible projects.

    It is a bug in the program.
    """


def guarded(factory: sessionmaker[Session]) -> sessionmaker[Session]:
    """Return a factory of guarded sessions, with the settings of another one."""
    engine: Engine = factory.kw["bind"]

    class Guarded(Session):
        """A session class of its own.

        With it, events of other sessions on the engine are not handled.
        """

    settings: dict[str, Any] = {**factory.kw, "class_": Guarded}  # as sessionmaker keeps them
    sessions = sessionmaker(**settings)
    event.listen(sessions, "do_orm_execute", _add_conditions)
    event.listen(sessions, "after_begin", _mark)
    event.listen(sessions, "before_flush", _check_changed)
    if not event.contains(engine, "before_cursor_execute", _look):
        event.listen(engine, "before_cursor_execute", _look)
    return sessions


@cache
def column_to_project(table: type[Table]) -> str | None:
    """Return the column by which a table belongs to a project.

    The table can belong to it directly or not; None if it belongs to none.
    """
    names = table.__table__.columns.keys()
    if table.__tablename__ in OPEN:
        return None
    return next((name for name in ("project_id", *_PARENTS) if name in names), None)


def tables() -> tuple[type[Table], ...]:
    """Return the classes of all tables."""
    return tuple(mapper.class_ for mapper in Table.registry.mappers)


def _add_conditions(state: ORMExecuteState) -> None:
    visible = state.session.info.get(VISIBLE, _UNTOLD)
    across = state.execution_options.get("adaptlab_across_projects", False)
    if visible is None or visible == _UNTOLD or across:
        return
    if state.is_column_load:  # re-reads a row that was visible before
        state.update_execution_options(**ACROSS_PROJECTS)
        return
    if state.is_orm_statement and (state.is_select or state.is_update or state.is_delete):
        receiving = state.session.info.get(RECEIVING, ()) if state.is_select else ()
        conditions = _conditions(tuple(visible), receiving)
        state.statement = state.statement.options(*conditions)
    elif not state.is_orm_statement:
        _refuse_plain_change(state.statement)


def _refuse_plain_change(statement: Executable) -> None:
    """Raise `NotVisible` for a change without the ORM.

    Such a change gets no condition. Checked here, because a flush sends the same text, but for rows
    that were visible before.
    """
    if not isinstance(statement, TextClause | UpdateBase) or isinstance(statement, Insert):
        return
    for match in _CHANGES.finditer(str(statement)):
        if match[1] in {t.__tablename__ for t in tables() if column_to_project(t) is not None}:
            raise NotVisible(f"A plain statement would change {match[1]!r}; update by the ORM.")


def _check_changed(session: Session, *_: object) -> None:
    """Raise `NotVisible` if a flush would change a row of another project.

    A shared row can be loaded, and its owning project decides what changes it.
    """
    visible = session.info.get(VISIBLE)
    if visible is None:
        return
    changed: list[Any] = [*session.dirty, *session.deleted]  # rows of any table
    for row in changed:
        if column_to_project(row.__class__) == "project_id" and row.project_id not in visible:
            raise NotVisible(f"A flush would change a row of {row.__tablename__!r} that is shared.")


@lru_cache(maxsize=1024)
def _conditions(
    visible: tuple[int, ...], receiving: Receiving
) -> Sequence[Any]:  # Any: loader options
    by_column = _by_column(visible, receiving)
    shared: Mapping[type[Table], Any] = _of_shared(visible, receiving) if receiving else {}
    return [
        with_loader_criteria(table, shared.get(table, by_column[column]), include_aliases=True)
        for table in tables()
        if (column := column_to_project(table)) is not None
    ]


def _by_column(
    visible: tuple[int, ...], receiving: Receiving
) -> Mapping[str, Any]:  # Any: functions of a table or alias
    jobs, studies, evaluations, maps = (
        _ids(parent, visible, receiving) for parent in (Job, Study, EvaluationRow, AttentionMapRow)
    )

    # Functions, because an expression would name the table even where an alias of it is read.
    # One per column, because SQLAlchemy caches the result of a function by its code.
    def by_project(table: Any) -> Any:
        return table.project_id.in_(visible)

    def by_job(table: Any) -> Any:
        return table.job_id.in_(jobs)

    def by_study(table: Any) -> Any:
        return table.study_id.in_(studies)

    def by_evaluation(table: Any) -> Any:
        return table.evaluation_id.in_(evaluations)

    def by_map(table: Any) -> Any:
        return table.map_id.in_(maps)

    return {
        "project_id": by_project,
        "job_id": by_job,
        "study_id": by_study,
        "evaluation_id": by_evaluation,
        "map_id": by_map,
    }


def _of_shared(
    visible: tuple[int, ...], receiving: Receiving
) -> Mapping[type[Table], Any]:  # Any: functions of a table or alias
    """Return the conditions of tables with shared rows.

    All others have the condition of their column.
    """
    job_ids, study_ids = _shared_jobs(receiving), _shared_studies(receiving)
    jobs, studies = (_ids(parent, visible, receiving) for parent in (Job, Study))

    def job(table: Any) -> Any:
        return or_(table.project_id.in_(visible), table.id == any_(job_ids))

    def study(table: Any) -> Any:
        return or_(table.project_id.in_(visible), table.id == any_(study_ids))

    def metric(table: Any) -> Any:
        return or_(table.project_id.in_(visible), table.job_id == any_(job_ids))

    def base_model(table: Any) -> Any:
        # The original, and not the rows of other projects with which it is shared.
        original = and_(table.shared_from.is_(None), table.job_id == any_(job_ids))
        return or_(table.project_id.in_(visible), original)

    # A job that is shared can also belong to studies that are not.
    def of_study(table: Any) -> Any:
        return and_(table.job_id.in_(jobs), table.study_id.in_(studies))

    return {
        Job: job,
        Study: study,
        JobMetric: metric,
        BaseModel: base_model,
        StudyJob: of_study,
        StudyPass: of_study,
    }


def _ids(
    parent: Any, visible: tuple[int, ...], receiving: Receiving
) -> Select[Any]:  # Any: a table's class, its ids
    column = column_to_project(parent)
    assert column is not None
    core = parent.__table__.c  # plain tables: the condition itself needs none
    if column != "project_id":
        return select(core.id).where(core[column].in_(_ids(_PARENTS[column], visible, receiving)))
    in_project = core.project_id.in_(visible)
    if not receiving:
        return select(core.id).where(in_project)
    shared = _shared_jobs(receiving) if parent is Job else _shared_studies(receiving)
    return select(core.id).where(or_(in_project, core.id == any_(shared)))


# Arrays, which Postgres computes once and looks up in an index. For `IN` of the same ids, it reads
# all jobs in order until a page is full: 0.4 s for a project with few jobs among 100,000.
def _shared_jobs(receiving: Receiving) -> ColumnElement[Any]:
    if isinstance(receiving, LinkedStudy):
        return literal([*receiving.job_ids], ARRAY(Uuid))
    return _array_of(select(_SHARED_JOBS.c.job_id).where(_SHARED_JOBS.c.project_id.in_(receiving)))


def _shared_studies(receiving: Receiving) -> ColumnElement[Any]:
    if isinstance(receiving, LinkedStudy):
        return literal([receiving.study_id], ARRAY(Uuid))
    core = StudyShare.__table__.c
    return _array_of(select(core.study_id).where(core.project_id.in_(receiving)))


def _array_of(ids: Select[Any]) -> ColumnElement[Any]:
    return func.array(ids.scalar_subquery(), type_=ARRAY(Uuid))


def _mark(session: Session, _: SessionTransaction, connection: Connection) -> None:
    connection.execution_options(**{_GUARD: session.info.get(VISIBLE, _UNTOLD)})


def _look(
    connection: Connection,
    _cursor: object,
    statement: str,
    _parameters: object,
    context: Any,  # an execution context, if there is one
    _many: bool,
) -> None:
    guard = connection.get_execution_options().get(_GUARD)
    if guard is None:
        return
    if context is not None and context.execution_options.get("adaptlab_across_projects"):
        return
    if (table := _unguarded(statement, guard != _UNTOLD)) is not None:
        raise NotVisible(
            f"A statement of a session that sees {guard} reads {table!r} without a condition on "
            "the project. Name the table in the FROM of an ORM statement, not only in its WHERE."
        )


@lru_cache(maxsize=4096)
def _unguarded(statement: str, has_conditions: bool) -> str | None:
    """Return a table that the statement reads without the condition, if any."""
    columns = {table.__tablename__: column_to_project(table) for table in tables()}
    wanted: dict[tuple[str, str], int] = {}
    for match in _READS.finditer(statement):
        column = columns.get(match[1])
        if column is not None:
            key = (match[2] or match[1], column)
            wanted[key] = wanted.get(key, 0) + 1
    for (name, column), times in wanted.items():
        found = len(re.findall(rf"\b{name}{_condition_text(column)}", statement))
        if not has_conditions or found < times:
            return name
    return None


def _condition_text(column: str) -> str:
    """Return a pattern of the condition in SQL.

    Other lists of ids do not match it.
    """
    if column == "project_id":
        return rf"\.{column} IN \((?:SELECT|%\(|NULL)"
    parent = _PARENTS[column]
    name, next_column = parent.__tablename__, column_to_project(parent)
    assert next_column is not None
    ids = rf"\(SELECT {name}\.id\s+FROM {name}\s+WHERE {name}"
    return rf"\.{column} IN {ids}{_condition_text(next_column)}"
