"""Seeds of the compared methods in other jobs, and how many failed."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, ScalarSelect, and_, func, select, tuple_
from sqlalchemy import Row as DatabaseRow
from sqlalchemy.orm import Session, aliased

from adaptlab.comparisons.table_comparison import SeenSeeds
from adaptlab.errors import InvalidSpec
from adaptlab.plugins.task import TASKS
from adaptlab.specs.resolve import configured
from adaptlab.specs.spec import Choice
from adaptlab.statistics.failing import floor_of
from adaptlab_db.tables import Evaluation, Job, Replicate
from adaptlab_services.comparisons.comparison_groups import ComparedTable

MOST_JOBS = 500
"""The newest jobs with methods of a table whose seeds are counted."""
Kind = tuple[str, str]
"""A method and a family of models."""


def with_seen(session: Session, tables: Sequence[ComparedTable]) -> tuple[ComparedTable, ...]:
    """Return tables with what their project has seen of their methods.

    Seeds of the table's own jobs do not count, nor do those of other projects.
    """
    return tuple(replace(table, seen=tuple(_seen(session, table))) for table in tables)


def _seen(session: Session, table: ComparedTable) -> Iterator[SeenSeeds]:
    own = [job.id for row in table.rows for job in row.jobs]
    kinds = _kinds(session, own)
    counts = _counts(session, own, set(kinds.values()))
    for row in table.rows:
        kind = kinds.get(row.jobs[0].id)
        if kind is not None and (failed := counts.get(kind)):
            yield SeenSeeds(label=row.label, family=kind[1], failing=sum(failed), seeds=len(failed))


def _kinds(session: Session, job_ids: Sequence[UUID]) -> dict[UUID, Kind]:
    rows = session.execute(select(Job.id, Job.method, Job.family).where(Job.id.in_(job_ids)))
    return {job: (method, family) for job, method, family in rows if method is not None}


def _counts(session: Session, own: Sequence[UUID], kinds: set[Kind]) -> Mapping[Kind, list[bool]]:
    """Return for every seen seed whether it failed, by method and family."""
    floors: dict[str, tuple[float, float] | None] = {}
    failed: dict[Kind, list[bool]] = defaultdict(list)
    for seed in _seeds(session, own, kinds) if kinds else ():
        task = str(seed.task)
        if task not in floors:
            floors[task] = _floors(seed.task)
        known = floors[task]
        if seed.status == "diverged":
            failed[seed.method, seed.family].append(True)
        elif known is not None and seed.total is not None:
            alone = None if seed.alone is None else seed.alone / seed.total
            floor = floor_of(known[0], (), alone, known[1])
            is_ok = seed.correct / seed.total >= floor.works_from(seed.total)
            failed[seed.method, seed.family].append(not is_ok)
    for kind, seeds in _diverged(session, own, kinds) if kinds else ():
        failed[kind] += [True] * seeds
    return failed


def _floors(task: Mapping[str, object]) -> tuple[float, float] | None:
    """Return chance and the best constant answer; None if not installed."""
    try:
        choice = Choice.model_validate(task)
        made = configured(TASKS.get(choice.name, "/name"), choice, "")
    except InvalidSpec:
        return None
    return made.chance(), made.constant_answer()


def _others(own: Sequence[UUID], kinds: set[Kind]) -> ScalarSelect[UUID]:
    """Return the newest other jobs of the project with these methods."""
    project = select(Job.project_id).where(Job.id == own[0]).scalar_subquery()
    return (
        select(Job.id)
        .where(Job.project_id == project, Job.kind == "adapt", Job.id.not_in(own))
        .where(tuple_(Job.method, Job.family).in_(kinds))
        .where((Job.state == "succeeded") | _all_diverged())
        .order_by(Job.created_at.desc(), Job.id.desc())
        .limit(MOST_JOBS)
        .scalar_subquery()
    )


def _all_diverged() -> ColumnElement[bool]:
    return (Job.state == "failed") & (Job.reason == "diverged")


def _diverged(
    session: Session, own: Sequence[UUID], kinds: set[Kind]
) -> Iterator[tuple[Kind, int]]:
    """Yield the number of seeds of jobs of which all diverged."""
    seeds = func.sum(func.jsonb_array_length(Job.resolved_spec["seeds"]))
    rows = session.execute(
        select(Job.method, Job.family, seeds)
        .where(Job.id.in_(_others(own, kinds)), _all_diverged())
        .group_by(Job.method, Job.family)
    )
    yield from (((method, family), count) for method, family, count in rows if method)


def _seeds(session: Session, own: Sequence[UUID], kinds: set[Kind]) -> Sequence[DatabaseRow[Any]]:
    """Return the chosen trials of seeds, with scores and the base's."""
    task = Job.resolved_spec["task"].label("task")
    adapted, base = aliased(Evaluation), aliased(Evaluation)

    def on_own_task(scored: type[Evaluation], *, attached: bool) -> ColumnElement[bool]:
        return and_(
            scored.job_id == Job.id,
            scored.attempt == Job.attempt,
            scored.replicate == Replicate.replicate,
            scored.split == "test",
            scored.attached.is_(attached),
            scored.base_model == "",
            scored.task == Job.resolved_spec["task"],
        )

    return session.execute(
        select(Job.method, Job.family, task, Replicate.status, adapted.correct, adapted.total)
        .add_columns(base.correct.label("alone"))
        .join(Replicate, (Replicate.job_id == Job.id) & (Replicate.attempt == Job.attempt))
        .outerjoin(adapted, on_own_task(adapted, attached=True))
        .outerjoin(base, on_own_task(base, attached=False))
        .where(Job.id.in_(_others(own, kinds)), Job.state == "succeeded", Replicate.selected)
    ).all()
