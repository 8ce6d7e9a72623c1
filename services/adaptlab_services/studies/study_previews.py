"""Previews of studies, before anything is stored.

They show jobs, cells, passes and time.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.specs.resolved import Resolved, write_resolved
from adaptlab.studies.study_plan import PlannedJob, StudyPlan
from adaptlab_answers.jobs import Estimate
from adaptlab_answers.studies import (
    PlannedBase,
    PlannedCell,
    PlannedCheckView,
    PlannedJobView,
    StudyPreview,
)
from adaptlab_services.jobs.estimates import estimate_each
from adaptlab_services.models.dataset_origins import with_origins
from adaptlab_services.studies.study_checks import CheckAssignment, CheckJob
from adaptlab_services.studies.study_jobs import Assignment, OwnJob


@dataclass(frozen=True, slots=True)
class _Planned:
    """A job of a plan, of any kind.

    `reused` is the existing job, if there is one.
    """

    digest: str
    resolved: Resolved
    queue: str
    replicates: int
    passes: int
    reused: UUID | None


def study_preview(
    session: Session,
    name: str,
    plan: StudyPlan,
    assignment: Assignment,
    checks: CheckAssignment,
    made: Mapping[str, Estimate],
    warnings: tuple[str, ...],
) -> StudyPreview:
    """Return the preview of a plan.

    `made` has the estimates of base models to be created.
    """
    planned, cells = _planned(plan, assignment)
    jobs = _views(session, [*planned, *_checking(checks)])
    new = [job for job in jobs if job.reused is None]
    estimates = [*made.values(), *(job.estimate for job in new if job.estimate is not None)]
    return StudyPreview(
        name=name,
        budget_axis=plan.axis,
        base_models=tuple(PlannedBase(name=n, is_new=n in made) for n in plan.base_models),
        jobs=jobs,
        cells=cells,
        checks=tuple(_check_view(job) for job in checks.jobs),
        skipped=plan.skipped,
        new_jobs=len(new),
        reused_jobs=len(jobs) - len(new),
        passes=len(made) + sum(job.passes for job in new),
        seconds=round(sum(estimate.seconds for estimate in estimates), 1),
        warnings=(*warnings, *_guesses(estimates)),
    )


def _guesses(estimates: Sequence[Estimate]) -> tuple[str, ...]:
    """A warning if some estimates are guesses."""
    guessed = [estimate for estimate in estimates if estimate.basis in ("default", "products")]
    if not guessed:
        return ()
    return (f"Time of {len(guessed)} of {len(estimates)} jobs: {guessed[0].explanation}",)


def _planned(
    plan: StudyPlan, assignment: Assignment
) -> tuple[Collection[_Planned], tuple[PlannedCell, ...]]:
    whole = {job.digest: job for job in plan.jobs}
    jobs: dict[str, _Planned] = {}
    places: dict[tuple[str, str, str, int], list[str]] = {}
    for cell, which in assignment.links:
        job, reused = _job(whole[cell.digest], which, assignment)
        jobs.setdefault(job.digest, _adapting(job, reused))
        place = (cell.base_model, cell.task, cell.method, cell.budget)
        places.setdefault(place, []).append(job.digest)
    cells = tuple(
        PlannedCell(
            **cell.model_dump(exclude={"digest"}),
            jobs=tuple(places[cell.base_model, cell.task, cell.method, cell.budget]),
        )
        for cell in plan.cells
    )
    return jobs.values(), cells


def _job(
    whole: PlannedJob, which: str | OwnJob, assignment: Assignment
) -> tuple[PlannedJob, UUID | None]:
    """A job of a cell, and the existing job that is reused for it, if any."""
    if isinstance(which, OwnJob):
        seeds = [seed for seed in whole.resolved.seeds if seed in which.seeds]
        return whole.with_seeds(seeds), which.job_id
    return assignment.needed[which], assignment.others.get(which)


def _adapting(job: PlannedJob, reused: UUID | None) -> _Planned:
    queue = job.spec.resources.queue
    return _Planned(job.digest, job.resolved, queue, job.replicates, job.passes, reused)


def _checking(checks: CheckAssignment) -> Iterator[_Planned]:
    """The jobs of the checks, each once; nothing is trained in them."""
    for job in {job.digest: job for job in checks.jobs}.values():
        reused = checks.reused(job.digest)
        yield _Planned(job.digest, job.resolved, job.spec.resources.queue, 1, 0, reused)


def _check_view(job: CheckJob) -> PlannedCheckView:
    base, cell = job.check.base, job.cell
    return PlannedCheckView(
        label=job.check.label,
        base_model=None if base is None else base.name,
        task=None if cell is None else cell.task,
        method=job.check.of,
        budget=None if cell is None else cell.budget,
        job=job.digest,
    )


def _views(session: Session, jobs: Sequence[_Planned]) -> tuple[PlannedJobView, ...]:
    """Views of the jobs; those that are not reused are estimated together."""
    new = [(job.resolved, job.queue) for job in jobs if job.reused is None]
    estimates = iter(estimate_each(session, new))
    documents = with_origins(session, [write_resolved(job.resolved) for job in jobs])
    return tuple(
        PlannedJobView(
            spec_digest=job.digest,
            resolved_spec=document,
            budget=job.resolved.budget,
            replicates=job.replicates,
            passes=job.passes,
            reused=job.reused,
            estimate=next(estimates) if job.reused is None else None,
        )
        for job, document in zip(jobs, documents, strict=True)
    )
