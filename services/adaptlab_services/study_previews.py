"""What a study would be, before anything is stored: jobs, cells, passes and time."""

from collections.abc import Mapping, Sequence
from typing import Literal
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.budget import BudgetVector
from adaptlab.spec import ResolvedSpec
from adaptlab.study_plan import PlacedMethod, PlannedJob, SkippedCell, StudyPlan
from adaptlab.values import Value
from adaptlab_services.estimates import Estimate, estimate
from adaptlab_services.study_jobs import Assignment, Known


class PlannedJobView(Value):
    """A job that a study would have; `reused` is the job that has run it, or does already."""

    spec_digest: str
    resolved_spec: ResolvedSpec
    budget: BudgetVector
    replicates: int
    passes: int
    reused: UUID | None
    estimate: Estimate | None


class PlannedCell(PlacedMethod):
    """One method at one budget on one task and base model, and the digests of its jobs.

    `gap` is what the method leaves of the budget, below zero for a reference that is over it.
    """

    gap: int
    jobs: tuple[str, ...]


class PlannedBase(Value):
    """A base model of a planned study; `is_new` if it has to be made first."""

    name: str
    is_new: bool


class StudyPreview(Value):
    """What a study would be; nothing is stored. `passes` and `seconds` are of what is not reused.

    A pass of the engine trains all seeds and trials of a job, and a new base model is one as well;
    a device with too little memory for that takes more. `seconds` adds up what all of them take
    one after the other.
    """

    object: Literal["study.preview"] = "study.preview"
    name: str
    base_models: tuple[PlannedBase, ...]
    jobs: tuple[PlannedJobView, ...]
    cells: tuple[PlannedCell, ...]
    skipped: tuple[SkippedCell, ...]
    new_jobs: int
    reused_jobs: int
    passes: int
    seconds: float
    warnings: tuple[str, ...]


def study_preview(
    session: Session,
    name: str,
    plan: StudyPlan,
    assignment: Assignment,
    made: Mapping[str, Estimate],
    warnings: tuple[str, ...],
) -> StudyPreview:
    """The preview of a plan; `made` are the base models that would be made for it."""
    jobs, cells = _planned(session, plan, assignment)
    new = [job for job in jobs if job.reused is None]
    estimates = [*made.values(), *(job.estimate for job in new if job.estimate is not None)]
    return StudyPreview(
        name=name,
        base_models=tuple(PlannedBase(name=n, is_new=n in made) for n in plan.base_models),
        jobs=jobs,
        cells=cells,
        skipped=plan.skipped,
        new_jobs=len(new),
        reused_jobs=len(jobs) - len(new),
        passes=len(made) + sum(job.passes for job in new),
        seconds=round(sum(estimate.seconds for estimate in estimates), 1),
        warnings=(*warnings, *_guesses(estimates)),
    )


def _guesses(estimates: Sequence[Estimate]) -> tuple[str, ...]:
    """A word of warning where the time is a guess."""
    guessed = [estimate for estimate in estimates if estimate.basis == "default"]
    if not guessed:
        return ()
    return (f"The time of {len(guessed)} of {len(estimates)} jobs: {guessed[0].explanation}",)


def _planned(
    session: Session, plan: StudyPlan, assignment: Assignment
) -> tuple[tuple[PlannedJobView, ...], tuple[PlannedCell, ...]]:
    whole = {job.digest: job for job in plan.jobs}
    jobs: dict[str, PlannedJobView] = {}
    places: dict[tuple[str, str, str, int], list[str]] = {}
    for cell, which in assignment.links:
        job, reused = _job(whole[cell.digest], which, assignment)
        if job.digest not in jobs:
            jobs[job.digest] = _view(session, job, reused)
        place = (cell.base_model, cell.task, cell.method, cell.budget)
        places.setdefault(place, []).append(job.digest)
    cells = tuple(
        PlannedCell(
            **cell.model_dump(exclude={"digest"}),
            jobs=tuple(places[cell.base_model, cell.task, cell.method, cell.budget]),
        )
        for cell in plan.cells
    )
    return tuple(jobs.values()), cells


def _job(
    whole: PlannedJob, which: str | Known, assignment: Assignment
) -> tuple[PlannedJob, UUID | None]:
    """A job of a cell, and the one that is there already and is it."""
    if isinstance(which, Known):
        seeds = [seed for seed in whole.resolved.seeds if seed in which.seeds]
        return whole.with_seeds(seeds), which.job_id
    return assignment.needed[which], assignment.found.get(which)


def _view(session: Session, job: PlannedJob, reused: UUID | None) -> PlannedJobView:
    return PlannedJobView(
        spec_digest=job.digest,
        resolved_spec=job.resolved,
        budget=job.resolved.budget,
        replicates=job.replicates,
        passes=job.passes,
        reused=reused,
        estimate=None if reused else estimate(session, job.resolved, job.spec.resources.queue),
    )
