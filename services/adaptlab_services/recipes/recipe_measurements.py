"""What the jobs of a study have measured, as a recipe's report needs it: a few queries in all."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.measurements.results import Evaluation, ReplicateResult
from adaptlab.reproductions.recipe import Recipe
from adaptlab.reproductions.recipe_results import (
    Measured,
    MeasuredCheck,
    MeasuredRow,
    SeedLoss,
    TrialScore,
)
from adaptlab.reproductions.task_matching import TaskConfiguration
from adaptlab.statistics import Scores, scores_of
from adaptlab.studies.study import StudySpec, base_names
from adaptlab_answers.studies import StudyCell, StudyCheckView, StudyView
from adaptlab_services.results.scored_jobs import ScoredJob, adapted_scores, scored_jobs

LONGEST_ERROR = 200
Place = tuple[str, str, str, int]
"""A cell: base model, task, method and budget."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """Everything that was measured, by job; of a job that has not succeeded there is nothing.

    Attributes:
        evaluations: of the adapted models, and of base models as trained, on every task.
    """

    jobs: Mapping[UUID, ScoredJob]
    evaluations: Mapping[UUID, Sequence[Evaluation]]


def measured(session: Session, view: StudyView, recipe: Recipe) -> Measured:
    """All that a study of the recipe has measured so far."""
    adaptations = {job.id for cell in view.cells for job in cell.jobs}
    others = {one.job.id for one in (*view.base_models, *view.checks)}
    facts = _facts(session, adaptations | others)
    words = _words(view, recipe)
    alone: dict[str | Place, MeasuredRow] = {
        base.name: _row(words[base.name], [facts.jobs[base.job.id]], facts)
        for base in view.base_models
    }
    cells = dict(_cells(view, words, facts))
    unique = {id(row): row for row in cells.values()}
    return Measured(
        rows=(*alone.values(), *unique.values()),
        checks=tuple(_checks(view.checks, words, alone | cells, facts)),
    )


def _words(view: StudyView, recipe: Recipe) -> dict[str, str]:
    """The recipe's words for the study's base models; one that it does not know keeps its name.

    A base model may be there under another name than the spec gives it, because an equal one was.
    """
    asked = base_names(StudySpec.model_validate(view.spec))
    there = [base.name for base in view.base_models]
    others = iter([name for name in there if name not in asked])
    names = [name if name in there else next(others, name) for name in asked]
    words = dict(zip(names, recipe.base_models, strict=False))
    return {name: words.get(name, name) for name in there}


def _cells(
    view: StudyView, words: Mapping[str, str], facts: _Facts
) -> Iterator[tuple[Place, MeasuredRow]]:
    """The row of every cell; cells with the same jobs are one row at several budgets."""
    groups: dict[tuple[str, str, str, tuple[UUID, ...]], list[StudyCell]] = defaultdict(list)
    for cell in view.cells:
        jobs = tuple(job.id for job in cell.jobs)
        groups[cell.base_model, cell.task, cell.method, jobs].append(cell)
    for (base, task, method, jobs), cells in groups.items():
        budgets = tuple(cell.budget for cell in cells)
        row = _row(words[base], [facts.jobs[job] for job in jobs], facts, method, budgets)
        for budget in budgets:
            yield (base, task, method, budget), row


def _row(
    base: str,
    jobs: Sequence[ScoredJob],
    facts: _Facts,
    method: str | None = None,
    budgets: tuple[int, ...] = (),
) -> MeasuredRow:
    """What jobs of one kind have measured; the first job that has a seed answers for it."""
    spec = jobs[0].spec
    deviations: dict[int, float] = {}
    for job in reversed(jobs):
        deviations |= {seed: far for seed, far in job.deviations.items() if math.isfinite(far)}
    return MeasuredRow(
        base_model=base,
        method=method,
        task=spec.task if method is not None else None,
        budgets=budgets,
        seeds=tuple(dict.fromkeys(seed for job in jobs for seed in job.spec.seeds)),
        parameters=spec.budget.trainable_parameters,
        steps=spec.training.steps,
        scores=tuple(_scores(method or base, jobs, facts)),
        deviations=deviations,
        trials=tuple(_trials(jobs)),
        schedule=spec.training.schedule,
        losses=tuple(_losses(jobs)),
        missing=tuple(_why(job) for job in jobs if job.state != "succeeded"),
    )


def _scores(
    label: str, jobs: Sequence[ScoredJob], facts: _Facts
) -> Iterator[tuple[TaskConfiguration, Scores]]:
    """The scores on every task, one evaluation a seed and all of equally many items."""
    found = [one for job in jobs for one in facts.evaluations.get(job.id, ())]
    bases = {
        seed: base
        for job in jobs
        for seed, base in zip(job.spec.seeds, job.spec.base_replicates, strict=False)
    }
    tasks: list[dict[str, object]] = []
    for one in found:
        if one.task not in tasks:
            tasks.append(one.task)
    for task in tasks:
        first = {one.seed: one for one in reversed(found) if one.task == task}
        items = next(one.total for one in found if one.task == task)
        alike = [one for one in first.values() if one.total == items]
        yield task, scores_of(label, alike, bases=bases)


def _trials(jobs: Sequence[ScoredJob]) -> Iterator[TrialScore]:
    """Every trial of every seed; a seed's only trial has no validation score but a test score."""
    known: set[int] = set()
    for job in jobs:
        tests = {one.replicate: one for one in job.evaluations}
        for one in job.replicates:
            if one.seed not in known:
                yield _trial(one, job.spec.validation_samples, tests.get(one.replicate))
        known |= {one.seed for one in job.replicates}


def _losses(jobs: Sequence[ScoredJob]) -> Iterator[SeedLoss]:
    """The losses of every seed's chosen trial."""
    known: set[int] = set()
    for job in jobs:
        rates = sorted(set(job.spec.training.learning_rates))
        edges = {rates[0], rates[-1]} if len(rates) > 1 else set[float]()
        for one in job.replicates:
            if one.selected and one.seed not in known:
                known.add(one.seed)
                half = job.half_losses.get(one.replicate)
                yield SeedLoss(one.seed, half, one.final_loss, one.learning_rate in edges)


def _trial(one: ReplicateResult, samples: int, test: Evaluation | None) -> TrialScore:
    correct, total = None, samples
    if one.validation_accuracy is not None:
        correct = round(one.validation_accuracy * samples)
    elif test is not None and one.status != "diverged":
        correct, total = test.correct, test.total
    return TrialScore(one.seed, one.learning_rate, one.status, correct, total)


def _checks(
    jobs: Sequence[StudyCheckView],
    words: Mapping[str, str],
    rows: Mapping[str | Place, MeasuredRow],
    facts: _Facts,
) -> Iterator[MeasuredCheck]:
    """The checks by what they measure; later seeds of a cell are checked by a further job."""
    groups: dict[tuple[str, str | Place | None], dict[UUID, StudyCheckView]] = defaultdict(dict)
    for one in jobs:
        groups[one.label, _place(one)][one.job.id] = one
    for (label, place), group in groups.items():
        done = [facts.jobs[job_id] for job_id in group]
        seeds = [min(len(one.seeds) for one in a) for job in done if (a := job.spec.adaptations)]
        yield MeasuredCheck(
            check=str(done[0].spec.checks[0]["name"]),
            label=label,
            of=_several(next(iter(group.values())), words) or rows.get(place or ""),
            seeds=sum(seeds) if seeds else None,
            reports=tuple(report for one in group.values() for report in one.reports),
            missing=tuple(_why(job) for job in done if job.state != "succeeded"),
        )


def _place(one: StudyCheckView) -> str | Place | None:
    """The cell that a check measures, else the base model, else nothing."""
    if one.base_model is None or one.task is None or one.method is None or one.budget is None:
        return one.base_model
    return one.base_model, one.task, one.method, one.budget


def _several(one: StudyCheckView, words: Mapping[str, str]) -> MeasuredRow | None:
    """What a check stands for that measures one method's adaptations in several cells."""
    if one.method is None or one.task is not None or one.base_model is None:
        return None
    return MeasuredRow(base_model=words[one.base_model], method=one.method)


def _why(job: ScoredJob) -> str:
    """What became of a job that has not succeeded, as the end of a sentence."""
    match job.state:
        case "running":
            return f"job {job.id} is running, at step {job.step:,} of {job.total_steps:,}"
        case "failed":
            error = "" if job.error is None else f": {job.error[:LONGEST_ERROR].rstrip('.')}"
            return f"job {job.id} failed ({job.reason or 'no reason known'}){error}"
        case "cancelled":
            return f"job {job.id} was cancelled"
        case state:
            return f"job {job.id} is {state}"


def _facts(session: Session, job_ids: Collection[UUID]) -> _Facts:
    jobs = scored_jobs(session, job_ids)
    done = [job.id for job in jobs.values() if job.state == "succeeded"]
    chosen = {
        job.id: {one.replicate for one in job.replicates if one.selected} for job in jobs.values()
    }
    return _Facts(
        jobs=jobs,
        evaluations=_evaluations(session, done, chosen),
    )


def _evaluations(
    session: Session, job_ids: Collection[UUID], chosen: Mapping[UUID, set[int]]
) -> Mapping[UUID, list[Evaluation]]:
    """The chosen replicates' scores on all tasks, with every outcome."""
    found = adapted_scores(session, job_ids)
    return {
        job_id: [one for one in scores if one.replicate in chosen[job_id]]
        for job_id, scores in found.items()
    }
