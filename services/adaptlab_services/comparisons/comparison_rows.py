"""Rows of a comparison's tables: scores, effort and gaps, from jobs."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from uuid import UUID

from adaptlab.comparisons.base_learned import OwnScore, base_warning
from adaptlab.comparisons.comparability import ComparedJob
from adaptlab.comparisons.comparison_warnings import ComparisonWarning, imported_base
from adaptlab.comparisons.diagnosis_evidence import trial_evidence
from adaptlab.comparisons.diagnosis_rows import MeasuredRow, repeated_rows
from adaptlab.comparisons.metric_order import MetricRow, metric_row, own_sample
from adaptlab.comparisons.row_names import first_in_sentence, method_in_sentence
from adaptlab.comparisons.scores import score_changes
from adaptlab.comparisons.table_comparison import (
    ComparedMethod,
    MethodCarried,
    MethodForgetting,
    MethodMetric,
    MissingScores,
    SeedScore,
    TriedTrial,
)
from adaptlab.plugins.method import Passes, methods_without_base
from adaptlab.plugins.metric import Metric
from adaptlab.runs.events import Evaluation
from adaptlab.specs.model_shapes import model_shape
from adaptlab.specs.resolved import ResolvedAdapt, UnreadSpec
from adaptlab.statistics import Scores, floor_of, scores_of
from adaptlab.statistics.scores import measured_metric, nothing_right
from adaptlab.studies.study_plan import Role
from adaptlab_services.results.scored_jobs import ScoredJob

LONGEST_ERROR = 200
LOST = frozenset({"diverged"})
"""Reasons of a failed job that are about its training, and not about the machine or the spec."""


class JobProgress(Protocol):
    """The progress of a job, as far as a table describes it."""

    @property
    def state(self) -> str:
        """The state of the job."""
        ...

    @property
    def reason(self) -> str | None:
        """The reason for that state."""
        ...

    @property
    def error(self) -> str | None:
        """The error of a failed job."""
        ...

    @property
    def step(self) -> int:
        """The last step."""
        ...

    @property
    def total_steps(self) -> int:
        """The number of steps."""
        ...

    @property
    def seeds(self) -> Sequence[int]:
        """The seeds that the job trains."""
        ...


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One method at one budget of a table, with its jobs.

    Seeds that were added later belong to a further job. `budget` is None if the row is the same at
    every budget.
    """

    method: str
    budget: int | None
    role: Role
    jobs: tuple[ScoredJob, ...]

    @property
    def label(self) -> str:
        """The name of the row, as in `Scores`."""
        return row_label(self.method, self.budget)

    @property
    def parameters(self) -> int:
        """The number of trainable parameters."""
        return self.jobs[0].spec.budget.trainable_parameters

    @property
    def trials(self) -> int:
        """The number of trials per seed, 0 for imported adapters."""
        return 0 if self.is_imported else len(self.jobs[0].spec.training.trials)

    @property
    def is_imported(self) -> bool:
        """True if the adapters were imported, not trained here."""
        return self.jobs[0].spec.adapter is not None

    def evaluations(self) -> tuple[Evaluation, ...]:
        """Return one evaluation per seed; the first job with a seed counts."""
        every = [evaluation for job in self.jobs for evaluation in job.evaluations]
        first = {evaluation.seed: evaluation for evaluation in reversed(every)}
        return tuple(e for e in first.values() if e.total == every[0].total)

    def scores(self, items: int | None = None) -> Scores | None:
        """Return the scores, or None if there are none yet.

        With the number of `items` of its table, a method whose seeds were all trained in vain has
        scores too: it fails on all of them.
        """
        evaluations, unscored = self.evaluations(), self.unscored()
        if not evaluations:
            if items is None or not unscored:
                return None
            first, *unscored = unscored
            evaluations = (nothing_right(first, items, self.metric),)
        return scores_of(
            self.method,
            evaluations,
            budget=self.budget,
            parameters=self.parameters,
            trials=self.trials,
            bases=None if self.starts_from_scratch else self._bases(),
            metric=self.metric,
            unscored=unscored,
            function=self._function(),
            is_reference=self.role == "reference",
        )

    def unscored(self) -> tuple[int, ...]:
        """Return the seeds that were trained and have no score.

        All their trials diverged, or none was left. Seeds of jobs that were cancelled, have not
        ended or were not scored on the task are not among them.
        """
        scored = {evaluation.seed for evaluation in self.evaluations()}
        lost = {seed for job in self.jobs for seed in _lost_seeds(job)}
        return tuple(sorted(lost - scored))

    def _function(self) -> str | None:
        """Return a key that rows share if they train the same function alike."""
        spec = self.jobs[0].resolved
        if not isinstance(spec, ResolvedAdapt) or not spec.trains:
            return None
        function = spec.method.equivalent_on(model_shape(spec)).model_dump_json()
        training = self.jobs[0].spec.training.model_dump_json()
        return f"{self.budget} {function} {training}"

    @property
    def metric(self) -> str | None:
        """The task's metric, None if it is the compared score."""
        resolved = self.jobs[0].resolved
        return resolved.task.other_metric() if isinstance(resolved, ResolvedAdapt) else None

    @property
    def starts_from_scratch(self) -> bool:
        """True if the method ignores the weights of its base model."""
        return any(
            (job.spec.method or {}).get("name") in methods_without_base() for job in self.jobs
        )

    def _bases(self) -> dict[int, int]:
        """Return the base model's replicate from which each seed starts."""
        return {
            seed: base
            for job in self.jobs
            for seed, base in zip(job.spec.seeds, job.spec.base_replicates, strict=True)
        }


def _lost_seeds(job: ScoredJob) -> Iterator[int]:
    """Yield the seeds of a job that were trained in vain."""
    if job.state == "failed" and job.reason in LOST:
        yield from job.spec.seeds
    if job.state == "succeeded" and job.evaluations:
        of_seed: dict[int, list[str]] = defaultdict(list)
        for replicate in job.replicates:
            of_seed[replicate.seed].append(replicate.status)
        for seed, statuses in of_seed.items():
            if all(status in ("diverged", "eliminated") for status in statuses):
                yield seed


def compared_method(row: ComparedRow) -> ComparedMethod:
    """Return the jobs, effort and settings of a row."""
    training = row.jobs[0].spec.training
    passes = [one for job in row.jobs for one in _passes(job)]
    return ComparedMethod(
        method=row.method,
        label=row.label,
        budget=row.budget,
        role=row.role,
        parameters=row.parameters,
        context_tokens=row.jobs[0].spec.budget.extra_context_tokens,
        stored_bits=row.jobs[0].spec.budget.stored_bits,
        demonstrations=_demonstrated(row),
        jobs=tuple(job.id for job in row.jobs),
        seeds=tuple(sorted({seed for job in row.jobs for seed in job.spec.seeds})),
        steps=training.steps,
        batch_size=training.batch_size,
        trials=row.trials,
        trained_steps=sum(replicate.steps for job in row.jobs for replicate in job.replicates),
        moved=_moved(row),
        forward_passes=sum(one.forward for one in passes),
        backward_passes=sum(one.backward for one in passes),
        sweep=() if row.is_imported else tuple(_sweep(row)),
        seed_scores=tuple(SeedScore(seed=e.seed, score=e.accuracy) for e in row.evaluations()),
    )


def _moved(row: ComparedRow) -> float | None:
    """Return the largest deviation of attention, None if not recorded."""
    deviations = [value for job in row.jobs for value in job.deviations.values()]
    return max((value for value in deviations if math.isfinite(value)), default=None)


def _passes(job: ScoredJob) -> Iterator[Passes]:
    """Yield the passes of each replicate, if the method is installed."""
    spec = job.resolved
    if isinstance(spec, ResolvedAdapt) and spec.trains:
        shape = model_shape(spec)
        for replicate in job.replicates:
            yield spec.method.passes(replicate.steps, shape)


def _demonstrated(row: ComparedRow) -> int | None:
    """Return the demonstrations of a row's method, None if it has none."""
    spec = row.jobs[0].resolved
    return spec.method.demonstrated() if isinstance(spec, ResolvedAdapt) else None


def counted_jobs(rows: Sequence[ComparedRow]) -> tuple[tuple[str, ScoredJob], ...]:
    """Return the jobs whose scores count, once each, with labels for warnings."""
    labelled: dict[UUID, tuple[str, ScoredJob]] = {}
    for row in rows:
        for job in row.jobs:
            if job.id not in labelled and job.evaluations:
                labelled[job.id] = (_part(row, job), job)
    return tuple(labelled.values())


def compared_jobs(rows: Sequence[ComparedRow]) -> tuple[ComparedJob, ...]:
    """Return the jobs whose settings must agree, once each, with labels.

    Rows that only repeat another row with other training serve the diagnosis and are left out.
    """
    measured = [m for row in rows if (m := measured_row(row)) is not None]
    repeated = repeated_rows(measured)
    alike = [row for row in rows if row.label not in repeated]
    return tuple(
        ComparedJob(label=label, spec=job.spec, environment=job.environment)
        for label, job in counted_jobs(alike)
    )


def measured_row(row: ComparedRow, metric: Metric | None = None) -> MeasuredRow | None:
    """Return the row for a diagnosis, with scores by a metric if given.

    None if it has no scores, was not trained here, or a plug-in is not installed.
    """
    spec = row.jobs[0].resolved
    scores = [_held_out(evaluation, metric) for evaluation in row.evaluations()]
    if not isinstance(spec, ResolvedAdapt) or not spec.trains or not scores:
        return None
    return MeasuredRow(
        label=row.label,
        method=spec.method,
        shape=model_shape(spec),
        steps=spec.training.steps,
        schedule=spec.training.schedule,
        trials=tuple(
            trial
            for job in row.jobs
            for trial in trial_evidence(
                job.replicates,
                job.half_losses,
                {e.replicate: _held_out(e, metric) for e in job.evaluations},
                metric,
            )
        ),
        score=math.fsum(scores) / len(scores),
        is_control=row.role == "control",
        seconds=_seconds_per_step(row),
    )


def _held_out(evaluation: Evaluation, metric: Metric | None) -> float:
    """Return the accuracy, or the score by a metric; 0 if it was not measured."""
    if metric is None:
        return evaluation.accuracy
    value = measured_metric(metric.name, evaluation)
    return 0.0 if value is None else metric.as_score(value)


def _seconds_per_step(row: ComparedRow) -> float | None:
    """Return the time per step of a replicate, None if it was not measured."""
    timed = [job for job in row.jobs if job.seconds is not None]
    steps = sum(one.steps for job in timed for one in job.replicates)
    return math.fsum(job.seconds or 0.0 for job in timed) / steps if steps else None


def missing_scores(row: ComparedRow) -> Iterator[MissingScores]:
    """Yield the seeds without a score, job by job."""
    scored = {evaluation.seed for evaluation in row.evaluations()}
    for job in row.jobs:
        seeds = tuple(seed for seed in job.spec.seeds if seed not in scored)
        if seeds:
            yield MissingScores(
                method=row.method,
                budget=row.budget,
                state=job.state,
                reason=job.reason,
                seeds=seeds,
                job=job.id,
                text=f"{first_in_sentence(_part(row, job))} {_why(job)}.",
            )


def forgetting(row: ComparedRow) -> MethodForgetting | None:
    """Return the row's effect on the base model's own tasks, if measured."""
    scores = [
        # Replicates are numbered within a job, and a row may have several jobs.
        replace(score, replicate=number * 2**20 + score.replicate)
        for number, job in enumerate(row.jobs)
        for score in job.base_scores
    ]
    changes = score_changes(scores)
    if not changes:
        return None
    return MethodForgetting(method=row.method, label=row.label, budget=row.budget, changes=changes)


def metric(row: ComparedRow, level: float, ordered: MetricRow | None) -> MethodMetric | None:
    """Return the task's metric of a row, None if it is the compared score.

    Limits are those of a typical seed at this level, None if not all seeds have the metric. They
    are taken from the row's place in an order; a voided table has none, and they are computed.
    """
    if (name := row.metric) is None:
        return None
    by_seed = sorted(row.evaluations(), key=lambda one: one.seed)
    measured = ((one.seed, measured_metric(name, one)) for one in by_seed)
    values = [(seed, value) for seed, value in measured if value is not None]
    if not values:
        return None
    scores = None if ordered else row.scores()
    if scores is not None and scores.metric is not None:
        ordered = metric_row(scores, own_sample(scores), level)
    return MethodMetric(
        method=row.method,
        label=row.label,
        budget=row.budget,
        metric=name,
        mean=math.fsum(value for _, value in values) / len(values),
        low=ordered and ordered.low,
        high=ordered and ordered.high,
        seed_scores=tuple(SeedScore(seed=seed, score=value) for seed, value in values),
    )


def carried(row: ComparedRow) -> Iterator[MethodCarried]:
    """Yield the scores of what was found, on other base models."""
    names = dict.fromkeys(name for job in row.jobs for name in job.carried)
    for name in names:
        scores = [
            replace(score, replicate=number * 2**20 + score.replicate)
            for number, job in enumerate(row.jobs)
            for score in job.carried.get(name, ())
        ]
        for change in score_changes(scores):
            yield MethodCarried(
                method=row.method,
                label=row.label,
                budget=row.budget,
                base_model=name,
                change=change,
                chance=_guessing(row),
            )


def row_label(method: str, budget: int | None) -> str:
    """Return the name of a row: the method, with its budget if it has one."""
    return method if budget is None else f"{method} at {budget:,}"


def live_text(method: str, budget: int | None, job: JobProgress, *, is_alone: bool) -> str:
    """Return the reason for missing scores, as in `missing_scores`.

    `is_alone` is true if the row has no other job.
    """
    name = _name(row_label(method, budget), job.seeds, is_alone=is_alone)
    return f"{first_in_sentence(name)} {_why(job)}."


def base_warnings(rows: Sequence[ComparedRow]) -> tuple[ComparisonWarning, ...]:
    """Return the warnings about base models, by name.

    They are about those that have not learned their own tasks, and about imported ones.
    """
    bases: dict[str, list[ScoredJob]] = defaultdict(list)
    for row in rows:
        for job in row.jobs:
            bases[str(job.spec.base_model)].append(job)
    warnings = (base_warning(name, _own_scores(jobs)) for name, jobs in bases.items())
    imported = (name for name, jobs in bases.items() if jobs[0].has_imported_base)
    return (
        *(warning for warning in warnings if warning is not None),
        *map(imported_base, imported),
    )


def alone_of(rows: Sequence[ComparedRow]) -> float | None:
    """Return the mean accuracy of the base model alone on the rows' task.

    None if it was not measured.
    """
    accuracies = [share for row in rows for job in row.jobs for share in job.base_alone]
    return math.fsum(accuracies) / len(accuracies) if accuracies else None


def chance_of(row: ComparedRow) -> float:
    """Return the accuracy of guessing on the task of a row."""
    resolved = row.jobs[0].resolved
    return resolved.task.chance() if isinstance(resolved, ResolvedAdapt) else 0.0


def _guessing(row: ComparedRow) -> float:
    """Return the accuracy of guessing or of the most common answer."""
    majorities = (one.majority for one in row.evaluations())
    return floor_of(chance_of(row), majorities, None).accuracy


def constant_of(row: ComparedRow) -> float:
    """Return the accuracy of the best constant answer to the task of a row."""
    resolved = row.jobs[0].resolved
    return resolved.task.constant_answer() if isinstance(resolved, ResolvedAdapt) else 0.0


def unread_warnings(rows: Sequence[ComparedRow]) -> tuple[ComparisonWarning, ...]:
    """Return a warning for each plug-in that jobs name and is not installed."""
    labels: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for text in dict.fromkeys(
            job.resolved.text for job in row.jobs if isinstance(job.resolved, UnreadSpec)
        ):
            labels[text].append(row.label)
    return tuple(
        ComparisonWarning(
            kind="unread",
            text=(
                f"The spec of {', '.join(map(method_in_sentence, methods))} cannot be read here: "
                f"{text} Their scores are compared as they are, without a diagnosis; where the "
                "task is unknown, the score of guessing counts as 0."
            ),
            methods=tuple(methods),
        )
        for text, methods in labels.items()
    )


def _own_scores(jobs: Sequence[ScoredJob]) -> tuple[OwnScore, ...]:
    """Return a base model's scores on its own tasks, or none if incomplete."""
    resolved = jobs[0].resolved
    if not isinstance(resolved, ResolvedAdapt):
        return ()
    shares: dict[str, list[float]] = defaultdict(list)
    for job in jobs:
        for score in job.base_scores:
            if not score.attached:
                shares[json.dumps(score.task, sort_keys=True)].append(score.correct / score.total)
    scored = [
        (task, shares[json.dumps(stored, sort_keys=True)])
        for task, stored in zip(resolved.base_tasks, jobs[0].spec.base_tasks, strict=True)
    ]
    if not all(accuracies for _, accuracies in scored):
        return ()
    return tuple(
        OwnScore(task=task, accuracy=math.fsum(accuracies) / len(accuracies))
        for task, accuracies in scored
    )


def _part(row: ComparedRow, job: ScoredJob) -> str:
    return _name(row.label, job.spec.seeds, is_alone=len(row.jobs) == 1)


def _name(label: str, seeds: Sequence[int], *, is_alone: bool) -> str:
    """Return the row's name, with the job's seeds if the row has other jobs."""
    return label if is_alone else f"{label} (seeds {', '.join(map(str, seeds))})"


def _why(job: JobProgress) -> str:
    match job.state:
        case "succeeded":
            return "was not scored on its task: add the task to evaluation.tasks"
        case "failed":
            reason = job.reason or "no reason known"
            error = "" if job.error is None else f": {job.error[:LONGEST_ERROR].rstrip('.')}"
            return f"failed ({reason}){error}"
        case "cancelled":
            return "was cancelled"
        case "running":
            return f"is running, at step {job.step:,} of {job.total_steps:,}"
        case _:
            return f"is {job.state}"


def _sweep(row: ComparedRow) -> Iterator[TriedTrial]:
    replicates = [replicate for job in row.jobs for replicate in job.replicates]
    for number, trial in enumerate(row.jobs[0].spec.training.trials):
        of_trial = [replicate for replicate in replicates if replicate.trial == number]
        yield TriedTrial(
            trial=number,
            learning_rate=trial.learning_rate,
            weight_decay=trial.weight_decay,
            initial_scale=trial.initial_scale,
            seeds=len(of_trial),
            chosen=sum(r.selected for r in of_trial),
            diverged=sum(r.status == "diverged" for r in of_trial),
            eliminated=sum(r.status == "eliminated" for r in of_trial),
            validation_accuracy=_mean([r.validation_accuracy for r in of_trial]),
            validation_metric=_mean([r.validation_metric for r in of_trial]),
            final_loss=_mean([r.final_loss for r in of_trial]),
        )


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers else None
