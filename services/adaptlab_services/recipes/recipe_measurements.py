"""The measurements of a study's jobs, as a recipe's report needs them."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.plugins.theory_check import THEORY_CHECKS
from adaptlab.reproductions.recipe import Recipe
from adaptlab.reproductions.recipe_results import (
    MeasuredCheck,
    RecipeMeasurements,
    RecipeRow,
    SeedLoss,
    TrialScore,
)
from adaptlab.reproductions.task_matching import TaskConfiguration
from adaptlab.runs.events import Evaluation, ReplicateResult
from adaptlab.statistics import Scores, scores_of
from adaptlab.studies.study import StudySpec, base_names
from adaptlab_answers.studies import StudyBase, StudyCell, StudyCheckView, StudyView
from adaptlab_services.results.scored_jobs import (
    ScoredJob,
    adapted_scores,
    scored_jobs,
    watched_scores,
)

LONGEST_ERROR = 200
Place = tuple[str, str, str, int]
"""A cell: base model, task, method and budget."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """All measurements by job; jobs that have not succeeded have none.

    Attributes:
        evaluations: of adapted models, and of base models as trained, on every task.
        carried: of what was found on other base models.
        words: the recipe's words for base models.
    """

    jobs: Mapping[UUID, ScoredJob]
    evaluations: Mapping[UUID, Sequence[Evaluation]]
    carried: Mapping[UUID, Sequence[Evaluation]]
    words: Mapping[str, str]


def measured(session: Session, view: StudyView, recipe: Recipe) -> RecipeMeasurements:
    """Return everything that a study of the recipe has measured so far."""
    adaptations = {job.id for cell in view.cells for job in cell.jobs}
    others = {part.job.id for part in (*view.base_models, *view.checks)}
    words = _words(view, recipe)
    facts = _facts(session, adaptations | others, words)
    alone: dict[str | Place, RecipeRow] = {
        base.name: _row(words[base.name], _alone(base, view.cells, facts), facts)
        for base in view.base_models
    }
    cells = dict(_cells(view, words, facts))
    unique = {id(row): row for row in cells.values()}
    return RecipeMeasurements(
        rows=(*alone.values(), *unique.values()),
        checks=tuple(_checks(view.checks, words, alone | cells, facts)),
    )


def _words(view: StudyView, recipe: Recipe) -> dict[str, str]:
    """Return the recipe's names for the study's base models.

    A base model that the recipe does not name keeps its own. The study may use an existing equal
    model with another name than in its spec.
    """
    requested = base_names(StudySpec.model_validate(view.spec))
    existing = [base.name for base in view.base_models]
    others = iter([name for name in existing if name not in requested])
    names = [name if name in existing else next(others, name) for name in requested]
    words = dict(zip(names, recipe.base_models, strict=False))
    return {name: words.get(name, name) for name in existing}


def _alone(base: StudyBase, cells: Sequence[StudyCell], facts: _Facts) -> Sequence[ScoredJob]:
    """Return the jobs that score a base model alone.

    A base model that was scored when it was created has its own job. For others, such as published
    models, it is the cells of a method that trains and adds nothing.
    """
    own = facts.jobs[base.job.id]
    if facts.evaluations.get(own.id):
        return [own]
    ids = {job.id: None for cell in cells if cell.base_model == base.name for job in cell.jobs}
    jobs = [facts.jobs[job] for job in ids]
    return [job for job in jobs if _adds_nothing(job)] or [own]


def _adds_nothing(job: ScoredJob) -> bool:
    budget = job.spec.budget
    return not budget.trainable_parameters and not budget.extra_context_tokens


def _cells(
    view: StudyView, words: Mapping[str, str], facts: _Facts
) -> Iterator[tuple[Place, RecipeRow]]:
    """Yield the row of every cell; cells with the same jobs share one row."""
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
) -> RecipeRow:
    """Return the measurements of equal jobs; the first job with a seed counts."""
    spec = jobs[0].spec
    deviations: dict[int, float] = {}
    for job in reversed(jobs):
        deviations |= {seed: far for seed, far in job.deviations.items() if math.isfinite(far)}
    return RecipeRow(
        base_model=base,
        method=method,
        task=spec.task if method is not None else None,
        budgets=budgets,
        seeds=tuple(dict.fromkeys(seed for job in jobs for seed in job.spec.seeds)),
        parameters=spec.budget.trainable_parameters,
        steps=spec.training.steps,
        scores=tuple(_scores(method or base, jobs, facts.evaluations)),
        watched=() if method is None else watched_scores(jobs),
        carried=dict(_carried(method or base, jobs, facts)),
        deviations=deviations,
        trials=tuple(_trials(jobs)),
        schedule=spec.training.schedule,
        losses=tuple(_losses(jobs)),
        looks=_looks(jobs),
        missing=tuple(_why(job) for job in jobs if job.state != "succeeded"),
    )


def _looks(jobs: Sequence[ScoredJob]) -> int:
    """Return how often seeds were asked for.

    A job that was created after others had ended has seeds that were added once those were seen.
    """
    looks, seen_at = 1, None
    for job in sorted(jobs, key=lambda job: job.created):
        if seen_at is not None and job.created >= seen_at:
            looks, seen_at = looks + 1, None
        if job.ended is not None:
            seen_at = job.ended if seen_at is None else min(seen_at, job.ended)
    return looks


def _carried(
    label: str, jobs: Sequence[ScoredJob], facts: _Facts
) -> Iterator[tuple[str, tuple[tuple[TaskConfiguration, Scores], ...]]]:
    """Yield the scores on other base models, by the recipe's words for them."""
    names = {e.base_model for job in jobs for e in facts.carried.get(job.id, ())}
    for name in sorted(name for name in names if name is not None):
        there = {
            job.id: [e for e in facts.carried.get(job.id, ()) if e.base_model == name]
            for job in jobs
        }
        yield facts.words.get(name, name), tuple(_scores(label, jobs, there))


def _scores(
    label: str, jobs: Sequence[ScoredJob], by_job: Mapping[UUID, Sequence[Evaluation]]
) -> Iterator[tuple[TaskConfiguration, Scores]]:
    """Yield the scores on every task, one evaluation per seed.

    Evaluations with another number of items than the task's first are left out.
    """
    evaluations = [e for job in jobs for e in by_job.get(job.id, ())]
    bases = {
        seed: base
        for job in jobs
        for seed, base in zip(job.spec.seeds, job.spec.base_replicates, strict=False)
    }
    tasks: list[dict[str, object]] = []
    for evaluation in evaluations:
        if evaluation.task not in tasks:
            tasks.append(evaluation.task)
    for task in tasks:
        first = {e.seed: e for e in reversed(evaluations) if e.task == task}
        items = next(e.total for e in evaluations if e.task == task)
        alike = [e for e in first.values() if e.total == items]
        yield task, scores_of(label, alike, bases=bases)


def _trials(jobs: Sequence[ScoredJob]) -> Iterator[TrialScore]:
    """Yield every trial of every seed.

    A seed's only trial has no validation score, so its test score is used.
    """
    seen: set[int] = set()
    for job in jobs:
        tests = {test.replicate: test for test in job.evaluations}
        for result in job.replicates:
            if result.seed not in seen:
                yield _trial(result, job.spec.validation_samples, tests.get(result.replicate))
        seen |= {result.seed for result in job.replicates}


def _losses(jobs: Sequence[ScoredJob]) -> Iterator[SeedLoss]:
    """Yield the losses of every seed's chosen trial."""
    seen: set[int] = set()
    for job in jobs:
        rates = sorted(set(job.spec.training.learning_rates))
        edges = {rates[0], rates[-1]} if len(rates) > 1 else set[float]()
        for result in job.replicates:
            if result.selected and result.seed not in seen:
                seen.add(result.seed)
                half = job.half_losses.get(result.replicate)
                is_at_edge = result.learning_rate in edges
                yield SeedLoss(result.seed, half, result.final_loss, is_at_edge)


def _trial(result: ReplicateResult, samples: int, test: Evaluation | None) -> TrialScore:
    correct, total = None, samples
    if result.validation_accuracy is not None:
        correct = round(result.validation_accuracy * samples)
    elif test is not None and result.status != "diverged":
        correct, total = test.correct, test.total
    return TrialScore(result.seed, result.learning_rate, result.status, correct, total)


def _checks(
    jobs: Sequence[StudyCheckView],
    words: Mapping[str, str],
    rows: Mapping[str | Place, RecipeRow],
    facts: _Facts,
) -> Iterator[MeasuredCheck]:
    """Yield the checks by what they measure, merging the jobs of later seeds."""
    groups: dict[tuple[str, str | Place | None], dict[UUID, StudyCheckView]] = defaultdict(dict)
    for check in jobs:
        groups[check.label, _place(check)][check.job.id] = check
    for (label, place), group in groups.items():
        done = [facts.jobs[job_id] for job_id in group]
        name = str(done[0].spec.checks[0]["name"])
        seeds = [min(len(a.seeds) for a in own) for job in done if (own := job.spec.adaptations)]
        if THEORY_CHECKS.get(name).each_replicate:
            seeds = [_replicates(check, facts.jobs[job_id]) for job_id, check in group.items()]
        yield MeasuredCheck(
            check=name,
            label=label,
            of=_several(next(iter(group.values())), words) or rows.get(place or ""),
            seeds=sum(seeds) if seeds else None,
            reports=tuple(report for check in group.values() for report in check.reports),
            missing=tuple(_why(job) for job in done if job.state != "succeeded"),
        )


def _replicates(check: StudyCheckView, job: ScoredJob) -> int:
    """Return the replicates that a check of each has measured.

    These are more than those of the base if there are several sets of demonstrations.
    """
    stated = [report.details.get("replicates") for report in check.reports]
    counts = [count for count in stated if isinstance(count, int)]
    return max(counts, default=len(job.spec.base_replicates))


def _place(check: StudyCheckView) -> str | Place | None:
    """Return the cell that a check measures, else its base model, else None."""
    base, task, method, budget = check.base_model, check.task, check.method, check.budget
    if base is None or task is None or method is None or budget is None:
        return base
    return base, task, method, budget


def _several(check: StudyCheckView, words: Mapping[str, str]) -> RecipeRow | None:
    """Return the row of a check over several cells of one method, else None."""
    if check.method is None or check.task is not None or check.base_model is None:
        return None
    return RecipeRow(base_model=words[check.base_model], method=check.method)


def _why(job: ScoredJob) -> str:
    """Return the state of an unsuccessful job, as the end of a sentence."""
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


def _facts(session: Session, job_ids: Collection[UUID], words: Mapping[str, str]) -> _Facts:
    jobs = scored_jobs(session, job_ids)
    done = [job.id for job in jobs.values() if job.state == "succeeded"]
    chosen = {job.id: {r.replicate for r in job.replicates if r.selected} for job in jobs.values()}
    return _Facts(
        jobs=jobs,
        evaluations=_evaluations(session, done, chosen),
        carried=_evaluations(session, done, chosen, elsewhere=True),
        words=words,
    )


def _evaluations(
    session: Session,
    job_ids: Collection[UUID],
    chosen: Mapping[UUID, set[int]],
    *,
    elsewhere: bool = False,
) -> Mapping[UUID, list[Evaluation]]:
    """Return the chosen replicates' scores on all tasks, with every outcome.

    They are those on other base models if `elsewhere`.
    """
    by_job = adapted_scores(session, job_ids, elsewhere=elsewhere)
    return {
        job_id: [score for score in scores if score.replicate in chosen[job_id]]
        for job_id, scores in by_job.items()
    }
