"""From the jobs of a cell to a row of a table: its scores, its effort, and what it lacks."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from uuid import UUID

from adaptlab.comparisons.base_learned import OwnScore, base_warning
from adaptlab.comparisons.comparability import ComparedJob
from adaptlab.comparisons.comparison import ComparisonWarning
from adaptlab.comparisons.diagnosis_evidence import trial_evidence
from adaptlab.comparisons.diagnosis_rows import MeasuredRow, longer_trainings
from adaptlab.comparisons.scores import score_changes
from adaptlab.comparisons.table_comparison import (
    ComparedMethod,
    MethodForgetting,
    MissingScores,
    TriedTrial,
)
from adaptlab.measurements.results import Evaluation
from adaptlab.plugins.method import starting_anew
from adaptlab.specs.resolve import family_shape
from adaptlab.specs.resolved import ResolvedAdapt, UnreadSpec
from adaptlab.statistics import Scores, scores_of
from adaptlab.studies.study_plan import Role
from adaptlab_services.results.scored_jobs import ScoredJob

LONGEST_ERROR = 200


class JobProgress(Protocol):
    """How far a job is, as a table words it."""

    @property
    def state(self) -> str:
        """The state of the job."""
        ...

    @property
    def reason(self) -> str | None:
        """Why it is in that state."""
        ...

    @property
    def error(self) -> str | None:
        """What it failed with."""
        ...

    @property
    def step(self) -> int:
        """The last step."""
        ...

    @property
    def total_steps(self) -> int:
        """The steps of all."""
        ...

    @property
    def seeds(self) -> Sequence[int]:
        """The seeds that it trains."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """One method at one budget of a table, and its jobs; seeds that came later are a further job.

    `budget` is None for one that stands beside every budget.
    """

    method: str
    budget: int | None
    role: Role
    jobs: tuple[ScoredJob, ...]

    @property
    def label(self) -> str:
        """How the row is called, as in `Scores`."""
        return row_label(self.method, self.budget)

    @property
    def parameters(self) -> int:
        """How many are trained."""
        return self.jobs[0].spec.budget.trainable_parameters

    @property
    def trials(self) -> int:
        """How many settings every seed is trained with."""
        return len(self.jobs[0].spec.training.trials)

    def evaluations(self) -> tuple[Evaluation, ...]:
        """One a seed; the first job that has a seed answers for it."""
        found = [one for job in self.jobs for one in job.evaluations]
        first = {one.seed: one for one in reversed(found)}
        return tuple(one for one in first.values() if one.total == found[0].total)

    def scores(self) -> Scores | None:
        """What it got right, None while nothing is scored."""
        if not (evaluations := self.evaluations()):
            return None
        return scores_of(
            self.method,
            evaluations,
            budget=self.budget,
            parameters=self.parameters,
            trials=self.trials,
            bases=None if self.starts_anew else self._bases(),
        )

    @property
    def starts_anew(self) -> bool:
        """Whether the weights of its base model do not matter to it."""
        return any((job.spec.method or {}).get("name") in starting_anew() for job in self.jobs)

    def _bases(self) -> dict[int, int]:
        """Which replicate of the base model each seed starts from."""
        return {
            seed: base
            for job in self.jobs
            for seed, base in zip(job.spec.seeds, job.spec.base_replicates, strict=True)
        }


def compared_method(row: Row) -> ComparedMethod:
    """What stands behind a row."""
    training = row.jobs[0].spec.training
    return ComparedMethod(
        method=row.method,
        label=row.label,
        budget=row.budget,
        role=row.role,
        parameters=row.parameters,
        jobs=tuple(job.id for job in row.jobs),
        seeds=tuple(sorted({seed for job in row.jobs for seed in job.spec.seeds})),
        steps=training.steps,
        batch_size=training.batch_size,
        trials=row.trials,
        trained_steps=sum(one.steps for job in row.jobs for one in job.replicates),
        sweep=tuple(_sweep(row)),
    )


def counted_jobs(rows: Sequence[Row]) -> tuple[tuple[str, ScoredJob], ...]:
    """The jobs whose scores count, each once, with the label by which warnings call it."""
    found: dict[UUID, tuple[str, ScoredJob]] = {}
    for row in rows:
        for job in row.jobs:
            if job.id not in found and job.evaluations:
                found[job.id] = (_part(row, job), job)
    return tuple(found.values())


def compared_jobs(rows: Sequence[Row]) -> tuple[ComparedJob, ...]:
    """The jobs whose settings have to agree, each once, under the labels of their rows.

    What trains longer the same as another row is there for the diagnosis, and voids nothing.
    """
    measured = [one for row in rows if (one := measured_row(row)) is not None]
    longer = longer_trainings(measured)
    alike = [row for row in rows if row.label not in longer]
    return tuple(
        ComparedJob(label=label, spec=job.spec, environment=job.environment)
        for label, job in counted_jobs(alike)
    )


def measured_row(row: Row) -> MeasuredRow | None:
    """The row as a diagnosis sees it; None where nothing is scored or a plug-in is gone."""
    spec, accuracies = row.jobs[0].resolved, [one.accuracy for one in row.evaluations()]
    if not isinstance(spec, ResolvedAdapt) or not accuracies:
        return None
    return MeasuredRow(
        label=row.label,
        method=spec.method,
        shape=family_shape(spec.family),
        steps=spec.training.steps,
        schedule=spec.training.schedule,
        trials=tuple(
            one
            for job in row.jobs
            for one in trial_evidence(
                job.replicates,
                job.half_losses,
                {one.replicate: one.accuracy for one in job.evaluations},
            )
        ),
        test_accuracy=math.fsum(accuracies) / len(accuracies),
    )


def missing_scores(row: Row) -> Iterator[MissingScores]:
    """The seeds that have no score, job by job."""
    scored = {one.seed for one in row.evaluations()}
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
                text=f"{_part(row, job)} {_why(job)}.",
            )


def forgetting(row: Row) -> MethodForgetting | None:
    """What it did to the tasks of its base model, None where that was not measured."""
    scores = [
        # Replicates are numbered within a job, and a row may have several.
        replace(one, replicate=number * 2**20 + one.replicate)
        for number, job in enumerate(row.jobs)
        for one in job.base_scores
    ]
    changes = score_changes(scores)
    if not changes:
        return None
    return MethodForgetting(method=row.method, label=row.label, budget=row.budget, changes=changes)


def row_label(method: str, budget: int | None) -> str:
    """The name of a row: its method, and its budget unless it stands beside every one."""
    return method if budget is None else f"{method} at {budget:,}"


def live_text(method: str, budget: int | None, job: JobProgress, *, is_alone: bool) -> str:
    """Why scores of a job are missing that are still to come; `is_alone` if its row has no other.

    The same sentence as of `missing_scores`.
    """
    return f"{_name(row_label(method, budget), job.seeds, is_alone=is_alone)} {_why(job)}."


def base_warnings(rows: Sequence[Row]) -> tuple[ComparisonWarning, ...]:
    """The warnings about base models that have not learned their own tasks, one per model."""
    bases: dict[str, list[ScoredJob]] = defaultdict(list)
    for row in rows:
        for job in row.jobs:
            bases[str(job.spec.base_model)].append(job)
    warnings = (base_warning(name, _own_scores(jobs)) for name, jobs in bases.items())
    return tuple(one for one in warnings if one is not None)


def chance_of(row: Row) -> float:
    """The accuracy of guessing on the task of a row."""
    resolved = row.jobs[0].resolved
    return resolved.task.chance() if isinstance(resolved, ResolvedAdapt) else 0.0


def unread_warnings(rows: Sequence[Row]) -> tuple[ComparisonWarning, ...]:
    """A warning for each plug-in that jobs of the table name and this installation lacks."""
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
                f"The spec of {', '.join(found)} cannot be read here: {text} Their scores are "
                "compared as they are, without a diagnosis; where the task is unknown, the score "
                "of guessing counts as 0."
            ),
            methods=tuple(found),
        )
        for text, found in labels.items()
    )


def _own_scores(jobs: Sequence[ScoredJob]) -> tuple[OwnScore, ...]:
    """The scores of one base model alone; none unless every one of its tasks was scored."""
    resolved = jobs[0].resolved
    if not isinstance(resolved, ResolvedAdapt):
        return ()
    shares: dict[str, list[float]] = defaultdict(list)
    for job in jobs:
        for one in job.base_scores:
            if not one.attached:
                shares[json.dumps(one.task, sort_keys=True)].append(one.correct / one.total)
    scored = [
        (task, shares[json.dumps(stored, sort_keys=True)])
        for task, stored in zip(resolved.base_tasks, jobs[0].spec.base_tasks, strict=True)
    ]
    if not all(found for _, found in scored):
        return ()
    return tuple(
        OwnScore(task=task, accuracy=math.fsum(found) / len(found)) for task, found in scored
    )


def _part(row: Row, job: ScoredJob) -> str:
    return _name(row.label, job.spec.seeds, is_alone=len(row.jobs) == 1)


def _name(label: str, seeds: Sequence[int], *, is_alone: bool) -> str:
    """The name of a job: that of its row, with its seeds where the row has others as well."""
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


def _sweep(row: Row) -> Iterator[TriedTrial]:
    ended = [one for job in row.jobs for one in job.replicates]
    for number, trial in enumerate(row.jobs[0].spec.training.trials):
        of_trial = [one for one in ended if one.trial == number]
        yield TriedTrial(
            trial=number,
            learning_rate=trial.learning_rate,
            weight_decay=trial.weight_decay,
            initial_scale=trial.initial_scale,
            seeds=len(of_trial),
            chosen=sum(one.selected for one in of_trial),
            diverged=sum(one.status == "diverged" for one in of_trial),
            eliminated=sum(one.status == "eliminated" for one in of_trial),
            validation_accuracy=_mean([one.validation_accuracy for one in of_trial]),
            final_loss=_mean([one.final_loss for one in of_trial]),
        )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
