"""Answers about studies.

They contain the specs, the progress cell by cell, and the missing results.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session

from adaptlab.reproductions.recipe import RecipeRef
from adaptlab.runs.theory_report import Check, Finding
from adaptlab.specs.spec import Choice
from adaptlab.studies.study import stored_axis
from adaptlab.studies.study_methods import task_labels
from adaptlab.studies.study_plan import SkippedCell
from adaptlab_answers.studies import (
    StudyBase,
    StudyCell,
    StudyCheckView,
    StudyJobView,
    StudyLinks,
    StudyState,
    StudySummary,
    StudyView,
)
from adaptlab_db.job_states import LOST_STATES, TERMINAL_STATES
from adaptlab_db.tables import Job, Study, StudyJob
from adaptlab_services.results.theory_reports import reports_of
from adaptlab_services.studies.question_views import question_view
from adaptlab_services.studies.study_jobs import IN_CELLS

JsonObject = dict[str, object]
LONGEST_ERROR = 300


@dataclass(frozen=True, slots=True)
class Belonging:
    """The names of a study's owner and projects.

    `shared_with` are the projects that can read it. `shared_from` is its own project, if another
    one is in view.
    """

    owner: str
    project: str
    shared_from: str | None = None
    shared_with: tuple[str, ...] = ()


def study_view(session: Session, study: Study, belonging: Belonging) -> StudyView:
    """Return the view of one study."""
    rows = _rows(session, study.id)
    # From the same statement: a job that ends now would make the study terminal without its scores.
    states = Counter({row.id: row.state for row in rows}.values())
    summary = study_summary(study, belonging, dict(sorted(states.items())))
    return StudyView(
        **dict(summary),
        shared_from=belonging.shared_from,
        shared_with=belonging.shared_with,
        spec=study.spec,
        budget_axis=stored_axis(study.spec),
        base_models=tuple(
            StudyBase(name=row.base_model, job=_job(row))
            for row in rows
            if row.role == "base_model"
        ),
        cells=tuple(_cells(row for row in rows if row.role in IN_CELLS)),
        checks=_checks(session, [row for row in rows if row.role == "check"]),
        skipped=tuple(SkippedCell.model_validate(cell) for cell in study.skipped),
        question=question_view(session, study) if "question" in study.spec else None,
    )


def study_summary(study: Study, belonging: Belonging, counts: dict[str, int]) -> StudySummary:
    """Return the summary of one study, for lists."""
    state = study_state(study, counts)
    return StudySummary(
        id=study.id,
        name=study.name,
        state=state,
        terminal=state != "running",
        jobs=counts,
        owner=belonging.owner,
        project=belonging.project,
        recipe=None if study.recipe is None else RecipeRef.model_validate(study.recipe),
        created_at=study.created_at,
        extended_at=study.extended_at,
        cancelled_at=study.cancelled_at,
        labels=study.labels,
        notes=study.notes,
        archived_at=study.archived_at,
        tasks=task_labels([Choice.model_validate(task) for task in study.spec.get("tasks", ())]),
        links=_links(study.id),
    )


def study_state(study: Study, counts: Mapping[str, int]) -> StudyState:
    """Return the state that follows from a study's question and its jobs."""
    if study.cancelled_at is not None:
        return "cancelled"
    if study.question_open or any(state not in TERMINAL_STATES for state in counts):
        return "running"
    return "incomplete" if set(counts) - {"succeeded"} else "succeeded"


def counted(session: Session, study_ids: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
    """Count the jobs of studies by state, each job once."""
    counts: dict[UUID, dict[str, int]] = {study_id: {} for study_id in study_ids}
    rows = session.execute(
        select(StudyJob.study_id, Job.state, func.count(Job.id.distinct()))
        .join(Job, Job.id == StudyJob.job_id)
        .where(StudyJob.study_id.in_(study_ids))
        .group_by(StudyJob.study_id, Job.state)
        .order_by(Job.state)
    )
    for study_id, state, count in rows:
        counts[study_id][state] = count
    return counts


def _rows(session: Session, study_id: UUID) -> Sequence[Row[*tuple[Any, ...]]]:
    """Return the jobs of a study and their coordinates in it.

    They are in the order in which they were linked.
    """
    seeds = Job.resolved_spec["seeds"].label("seeds")
    query = (
        select(
            StudyJob.base_model,
            StudyJob.task,
            StudyJob.method,
            StudyJob.budget,
            StudyJob.role,
            StudyJob.theory_check,
            StudyJob.over_budget,
            StudyJob.reused,
            Job.id,
            Job.state,
            Job.reason,
            Job.error,
            Job.step,
            Job.total_steps,
            Job.trainable_parameters,
            seeds,
        )
        .join(Job, Job.id == StudyJob.job_id)
        .where(StudyJob.study_id == study_id)
        .order_by(StudyJob.id)
    )
    return session.execute(query).all()


def _job(row: Row[*tuple[Any, ...]]) -> StudyJobView:
    return StudyJobView(
        id=row.id,
        state=row.state,
        terminal=row.state in TERMINAL_STATES,
        reason=row.reason,
        error=None if row.error is None else row.error[:LONGEST_ERROR],
        reused=row.reused,
        seeds=tuple(row.seeds),
        step=row.step,
        total_steps=row.total_steps,
    )


def _cells(rows: Iterable[Row[*tuple[Any, ...]]]) -> Iterator[StudyCell]:
    cells: dict[tuple[str, str, str, int], list[Row[*tuple[Any, ...]]]] = {}
    for row in rows:
        cells.setdefault((row.base_model, row.task, row.method, row.budget), []).append(row)
    for (base_model, task, method, budget), jobs in cells.items():
        states = {row.state for row in jobs}
        ended_badly = states & set(LOST_STATES)
        yield StudyCell(
            base_model=base_model,
            task=task,
            method=method,
            budget=budget,
            role=jobs[0].role,
            over_budget=jobs[0].over_budget,
            trainable_parameters=jobs[0].trainable_parameters,
            state="missing"
            if ended_badly
            else "succeeded"
            if states == {"succeeded"}
            else "running",
            jobs=tuple(_job(row) for row in jobs),
        )


def _checks(session: Session, rows: Sequence[Row[*tuple[Any, ...]]]) -> tuple[StudyCheckView, ...]:
    reports = reports_of(session, {row.id for row in rows if row.state == "succeeded"})
    return tuple(
        StudyCheckView(
            label=row.theory_check,
            base_model=row.base_model,
            task=row.task,
            method=row.method,
            budget=row.budget,
            job=_job(row),
            verdict=_verdict(reports.get(row.id, ())),
            reports=reports.get(row.id, ()),
        )
        for row in rows
    )


def _verdict(reports: Sequence[Check]) -> Finding | None:
    if not reports:
        return None
    return "holds" if all(report.verdict == "holds" for report in reports) else "fails"


def _links(study_id: UUID) -> StudyLinks:
    place = f"/v1/studies/{study_id}"
    return StudyLinks(
        self=place,
        jobs=f"{place}/jobs",
        comparison=f"{place}/comparison",
        cancel=f"{place}/cancel",
        extend=f"{place}/extend",
        clone=f"{place}/clone",
    )
