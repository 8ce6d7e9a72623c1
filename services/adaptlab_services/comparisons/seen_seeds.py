"""Seeds of the compared methods in other jobs, and how many failed."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, ScalarSelect, and_, func, select, tuple_
from sqlalchemy import Row as DatabaseRow
from sqlalchemy.orm import Session, aliased

from adaptlab.comparisons.report import SeenSeeds
from adaptlab.specs.task_floor import task_floor
from adaptlab.statistics.failing import floor_of
from adaptlab_db.tables import EvaluationRow, Job, Replicate
from adaptlab_services.comparisons.comparison_groups import ComparedTable
from adaptlab_services.results.scored_jobs import ScoredJob

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
    kinds = {row.label: kind for row in table.rows if (kind := _kind(row.jobs[0])) is not None}
    own = [job.id for row in table.rows for job in row.jobs]
    if not kinds:
        return
    failed = _failed(_seeds(session, own, set(kinds.values())))
    for label, kind in kinds.items():
        if seen := failed.get(kind):
            method, family = kind
            yield SeenSeeds(
                label=label, method=method, family=family, failing=sum(seen), seeds=len(seen)
            )


def _kind(job: ScoredJob) -> Kind | None:
    method = job.spec.method
    return None if method is None else (str(method["name"]), str(job.spec.family["name"]))


def _failed(seeds: Sequence[DatabaseRow[Any]]) -> Mapping[Kind, list[bool]]:
    """Return for every seen seed whether it failed, by method and family."""
    floors: dict[str, float | None] = {}
    failed: dict[Kind, list[bool]] = defaultdict(list)
    for seed in seeds:
        kind = (seed.method, seed.family)
        if seed.state == "failed":  # all of its seeds diverged
            failed[kind] += [True] * seed.seeds
            continue
        task = str(seed.task)
        if task not in floors:
            floors[task] = task_floor(seed.task)
        floor = floors[task]
        if seed.status == "diverged":
            failed[kind].append(True)
        elif floor is not None and seed.total is not None:
            alone = None if seed.alone is None else seed.alone / seed.total
            works_from = floor_of(floor, (), alone).works_from(seed.total)
            failed[kind].append(seed.correct / seed.total < works_from)
    return failed


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


def _seeds(session: Session, own: Sequence[UUID], kinds: set[Kind]) -> Sequence[DatabaseRow[Any]]:
    """Return the chosen trials of seeds, with scores and the base's.

    A job of which all seeds diverged has one row without them.
    """
    adapted, base = aliased(EvaluationRow), aliased(EvaluationRow)

    def on_own_task(scored: type[EvaluationRow], *, attached: bool) -> ColumnElement[bool]:
        return and_(
            scored.job_id == Job.id,
            scored.attempt == Job.attempt,
            scored.replicate == Replicate.replicate,
            scored.split == "test",
            scored.attached.is_(attached),
            scored.base_model == "",
            scored.task == Job.resolved_spec["task"],
        )

    chosen = and_(
        Replicate.job_id == Job.id,
        Replicate.attempt == Job.attempt,
        Replicate.selected,
        Job.state == "succeeded",
    )
    return session.execute(
        select(Job.method, Job.family, Job.state, Replicate.status, adapted.correct, adapted.total)
        .add_columns(
            Job.resolved_spec["task"].label("task"),
            func.jsonb_array_length(Job.resolved_spec["seeds"]).label("seeds"),
            base.correct.label("alone"),
        )
        .outerjoin(Replicate, chosen)
        .outerjoin(adapted, on_own_task(adapted, attached=True))
        .outerjoin(base, on_own_task(base, attached=False))
        .where(Job.id.in_(_others(own, kinds)))
    ).all()
