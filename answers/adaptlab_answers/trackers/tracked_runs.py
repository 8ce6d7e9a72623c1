"""A study as runs of a tracker: below it its jobs, below these seeds."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from statistics import median
from types import MappingProxyType
from typing import Protocol
from uuid import UUID

from adaptlab.comparisons.group_scores import GroupScore
from adaptlab.comparisons.report import ReportRow
from adaptlab.comparisons.scores import has_right_answers
from adaptlab.comparisons.table_comparison import TableComparison
from adaptlab.runs.events import ReplicateResult
from adaptlab_answers.jobs import JobView
from adaptlab_answers.queries import Cell
from adaptlab_answers.results import Curve, EvaluationView
from adaptlab_answers.studies import StudyView

ID_TAG = "adaptlab.id"
"""The tag by which a run is found again."""
MOST_POINTS = 500
SCORES = {"mean": "", "low": "_low", "high": "_high", "sd": "_sd"}
"""Statistics over seeds, with what their names end in."""
FIELDS = ("id", *(f"metrics.accuracy.{one}" for one in SCORES))
"""Fields of the results from which `StudyResults.scores` come."""


@dataclass(frozen=True, slots=True)
class TrackedPoint:
    """A value at a step; of scores the step is the last one."""

    name: str
    step: int
    value: float


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """A run of a tracker.

    Attributes:
        key: what distinguishes it, as `ID_TAG`.
        path: the names of the runs above it and its own, unique among all.
        state: a state of adaptlab, such as `succeeded`.
        created_at: where the times of points begin; the same in every attempt.
        parameters: settings by name.
        tags: other facts by name.
        points: curves and scores.
        note: what a person reads first.
    """

    key: str
    path: tuple[str, ...]
    state: str
    created_at: datetime
    started_at: datetime
    ended_at: datetime | None
    parameters: Mapping[str, str]
    tags: Mapping[str, str]
    points: tuple[TrackedPoint, ...]
    note: str = ""

    @property
    def stamp(self) -> str:
        """The time of its end, and a digest of all that is sent of it."""
        content = json.dumps(astuple(self), sort_keys=True, default=str)
        return f"{self.ended_at} {hashlib.sha256(content.encode()).hexdigest()[:16]}"


class StudyResults(Protocol):
    """What is known of one study, as the server or a client reads it."""

    def tables(self) -> Sequence[TableComparison]:
        """Return its comparison, or nothing."""
        ...

    def jobs(self) -> Iterable[JobView]:
        """Return its jobs."""
        ...

    def scores(self) -> Iterable[Mapping[str, Cell]]:
        """Return the rows of its results, with the columns `FIELDS`."""
        ...

    def curves(self, job_id: UUID, names: Sequence[str], most: int) -> Sequence[Curve]:
        """Return curves of a job; without `names`, all of them."""
        ...

    def evaluations(self, job_id: UUID) -> Sequence[EvaluationView]:
        """Return the scores of a job's adapted models."""
        ...

    def group_scores(self, job_id: UUID) -> Sequence[GroupScore]:
        """Return the scores of groups of standard tasks of a job."""
        ...

    def replicates(self, job_id: UUID) -> Sequence[ReplicateResult]:
        """Return the replicates of a job."""
        ...

    def page(self, kind: str, name: str) -> str | None:
        """Return the address of a page, None if the server has no address."""
        ...


NOTHING: Mapping[str, str] = MappingProxyType({})


def tracked_runs(
    results: StudyResults, study: StudyView, sent: Mapping[str, str] = NOTHING
) -> Iterator[TrackedRun]:
    """Yield the run of a study, then of its jobs that have begun, with seeds.

    `sent` are the stamps of ended jobs that the tracker has, by key: of those, only what has
    changed is read and yielded.
    """
    tables = results.tables()
    headlines = [report.headline for table in tables for report in table.reports]
    jobs = [job for job in results.jobs() if job.started_at or job.terminal]
    last = max((job.finished_at for job in jobs if job.finished_at), default=study.cancelled_at)
    yield TrackedRun(
        key=str(study.id),
        path=(study.name,),
        state=study.state,
        created_at=study.created_at,
        started_at=study.created_at,
        ended_at=last if study.terminal else None,
        parameters={},
        tags=_linked(results, "studies", study.name) | {"adaptlab.verdict": " ".join(headlines)},
        points=(),
        note="\n\n".join(headlines),
    )
    rows = dict(_rows_by_job(tables))
    scores = {str(row["id"]): dict(_scores(row)) for row in results.scores()}
    for job in jobs:
        run = _job_run(results, study, job, rows.get(str(job.id)), scores.get(str(job.id), {}))
        before = sent.get(run.key, "")
        if before != run.stamp:
            yield run
            is_trained = job.kind in ("adapt", "pretrain") and job.succeeded
            if is_trained and not before.startswith(f"{run.ended_at} "):
                yield from _seed_runs(results, job, run.path)


def _rows_by_job(tables: Sequence[TableComparison]) -> Iterator[tuple[str, ReportRow]]:
    for table in tables:
        rows = {row.label: row for report in table.reports for row in report.rows}
        for method in table.methods:
            if method.label in rows:
                yield from ((str(job), rows[method.label]) for job in method.jobs)


def _scores(row: Mapping[str, Cell]) -> Iterator[tuple[str, float]]:
    """Yield the accuracy over seeds with its interval."""
    for one in SCORES:
        value = row[f"metrics.accuracy.{one}"]
        if isinstance(value, int | float):
            yield one, float(value)


def _job_run(
    results: StudyResults,
    study: StudyView,
    job: JobView,
    row: ReportRow | None,
    scores: Mapping[str, float],
) -> TrackedRun:
    training = job.resolved_spec.training
    steps = training.steps
    facts = {
        "kind": job.kind,
        "method": job.method,
        "task": job.task,
        "base_model": job.base_model,
        "budget": job.budget_requested,
        "trainable_parameters": job.trainable_parameters,
        "steps": steps or None,
        "batch_size": training.batch_size if steps else None,
    }
    tags = _linked(results, "jobs", str(job.id)) | {"adaptlab.owner": job.owner}
    tags |= {f"labels.{name}": value for name, value in job.labels.items()}  # these can change
    if row is not None:
        tags |= {"adaptlab.verdict": row.tag, "adaptlab.against_best": row.difference}
    if job.error:
        tags["adaptlab.error"] = job.error
    return TrackedRun(
        key=str(job.id),
        path=(study.name, f"{job.method or job.kind}-{str(job.id)[:8]}"),
        state=job.state,
        created_at=job.created_at,
        started_at=job.started_at or job.created_at,
        ended_at=job.finished_at,
        parameters={name: str(value) for name, value in facts.items() if value is not None},
        tags=tags,
        points=(
            *(
                TrackedPoint(f"test/accuracy{SCORES[one]}", steps, value)
                for one, value in scores.items()
            ),
            *_group_points(results, job, steps),
            *(() if job.terminal else _so_far(results, job)),
        ),
    )


def _group_points(results: StudyResults, job: JobView, steps: int) -> Iterator[TrackedPoint]:
    """Yield the scores of groups of standard tasks, with limits, over seeds."""
    if not job.succeeded or not job.resolved_spec.evaluation_groups:
        return
    names: Counter[str] = Counter()
    for one in results.group_scores(job.id):
        names[one.name] += 1
        again = f"_{names[one.name]}" if names[one.name] > 1 else ""
        for statistic in ("mean", "low", "high"):
            name = f"test/{one.name}{again}/{one.metric}{SCORES[statistic]}"
            yield TrackedPoint(name, steps, getattr(one.accuracy, statistic))


def _so_far(results: StudyResults, job: JobView) -> Iterator[TrackedPoint]:
    """Yield a running job's training loss, the median over replicates.

    What was sent before is never revised: trials that have ended since are not in the new point.
    """
    curves = results.curves(job.id, ("train_loss",), 2)
    if last := max((curve.steps[-1] for curve in curves), default=0):
        live = [curve.values[-1] for curve in curves if curve.steps[-1] == last]
        losses = [math.inf if value is None else value for value in live]
        yield TrackedPoint("curves/train_loss_now", last, median(losses))


def _seed_runs(results: StudyResults, job: JobView, path: tuple[str, ...]) -> Iterator[TrackedRun]:
    """Yield a run for the trial that each seed keeps."""
    curves = results.curves(job.id, (), MOST_POINTS)
    scored = results.evaluations(job.id)
    own = _text(job.resolved_spec.model_dump(mode="json")["task"])
    for one in results.replicates(job.id):
        if one.selected:
            ours = [score for score in scored if score.replicate == one.replicate]
            drawn = [curve for curve in curves if curve.replicate == one.replicate]
            points = (*_curve_points(drawn), *_last(one, own, ours))
            yield TrackedRun(
                key=f"{job.id}/{one.seed}",
                path=(*path, f"seed-{one.seed}"),
                state="failed" if one.status == "diverged" else "succeeded",
                created_at=job.created_at,
                started_at=job.started_at or job.created_at,
                ended_at=job.finished_at,
                parameters={
                    "seed": str(one.seed),
                    "learning_rate": f"{one.learning_rate:g}",
                    "weight_decay": f"{one.weight_decay:g}",
                },
                tags={"adaptlab.status": one.status},
                points=points,
            )


def _curve_points(curves: Sequence[Curve]) -> Iterator[TrackedPoint]:
    for curve in curves:
        for step, value in zip(curve.steps, curve.values, strict=True):
            lost = float("nan")  # as a tracker shows a loss that is not finite
            yield TrackedPoint(f"curves/{curve.name}", step, lost if value is None else value)


def _last(one: ReplicateResult, own: str, scored: list[EvaluationView]) -> Iterator[TrackedPoint]:
    """Yield the scores of one seed; other tasks are in the names of theirs."""
    names: Counter[str] = Counter()
    for score in scored:
        name = str(score.task["name"])
        beside = "" if _text(score.task) == own else f"_{name}"
        names[beside] += 1
        again = f"_{names[beside]}" if names[beside] > 1 else ""
        right = score.accuracy if has_right_answers(score.task) else None
        figures = {"accuracy": right, "loss": score.loss, **score.measures}
        for figure, value in figures.items():
            if value is not None:
                yield TrackedPoint(f"test{beside}{again}/{figure}", one.steps, value)


def _text(document: object) -> str:
    return json.dumps(document, sort_keys=True)


def _linked(results: StudyResults, kind: str, name: str) -> dict[str, str]:
    url = results.page(kind, name)
    return {} if url is None else {"adaptlab.url": url}
