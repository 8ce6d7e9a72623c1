"""A study as runs of a tracker: below it its jobs, below these seeds."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING

from adaptlab.comparisons.report import ReportRow
from adaptlab.runs.events import ReplicateResult
from adaptlab_answers.comparisons import StudyComparisonView
from adaptlab_answers.jobs import JobView
from adaptlab_answers.results import Curve, EvaluationView
from adaptlab_answers.studies import StudyView

if TYPE_CHECKING:
    from adaptlab_client.client import Client

ID_TAG = "adaptlab.id"
"""The tag by which a run is found again."""
MOST_POINTS = 500
SCORES = {"mean": "", "low": "_low", "high": "_high", "sd": "_sd"}
"""Statistics over seeds, with what their names end in."""


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


def tracked_runs(client: "Client", study: StudyView) -> Iterator[TrackedRun]:
    """Yield the run of a study, then of its jobs that have begun, with seeds."""
    comparison = client.comparisons.study(study.id)
    reports = [(table, report) for table in comparison.tables for report in table.reports]
    headlines = [report.headline for _, report in reports]
    jobs = [job for job in client.studies.jobs(study.id) if job.started_at or job.terminal]
    last = max((job.finished_at for job in jobs if job.finished_at), default=None)
    yield TrackedRun(
        key=str(study.id),
        path=(study.name,),
        state=study.state,
        created_at=study.created_at,
        started_at=study.created_at,
        ended_at=last if study.terminal else None,
        parameters={},
        tags={"adaptlab.url": _page(client, "studies", study.name)}
        | {"adaptlab.verdict": " ".join(headlines)},
        points=(),
        note="\n\n".join(headlines),
    )
    found = dict(_rows_by_job(comparison))
    scores = _scores(client, study)
    for job in jobs:
        yield from _job_runs(
            client, study, job, found.get(str(job.id)), scores.get(str(job.id), {})
        )


def _rows_by_job(comparison: StudyComparisonView) -> Iterator[tuple[str, ReportRow]]:
    for table in comparison.tables:
        rows = {row.label: row for report in table.reports for row in report.rows}
        for method in table.methods:
            if method.label in rows:
                yield from ((str(job), rows[method.label]) for job in method.jobs)


def _scores(client: "Client", study: StudyView) -> Mapping[str, Mapping[str, float]]:
    """Return the accuracy over seeds with its interval, by job."""
    names = [f"metrics.accuracy.{one}" for one in SCORES]
    table = client.results.query(f"study = {study.id}", fields=("id", *names))
    return {
        str(row["id"]): {
            one: float(value)
            for one, name in zip(SCORES, names, strict=True)
            if isinstance(value := row[name], int | float)
        }
        for row in table.rows()
    }


def _job_runs(
    client: "Client",
    study: StudyView,
    job: JobView,
    row: ReportRow | None,
    scores: Mapping[str, float],
) -> Iterator[TrackedRun]:
    path = (study.name, f"{job.method or job.kind}-{str(job.id)[:8]}")
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
        **{f"labels.{name}": value for name, value in job.labels.items()},
    }
    tags = {"adaptlab.url": _page(client, "jobs", str(job.id)), "adaptlab.owner": job.owner}
    if row is not None:
        tags |= {"adaptlab.verdict": row.tag, "adaptlab.against_best": row.difference}
    if job.error:
        tags["adaptlab.error"] = job.error
    yield TrackedRun(
        key=str(job.id),
        path=path,
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
            *(() if job.terminal else _so_far(client, job)),
        ),
    )
    if job.kind in ("adapt", "pretrain") and job.succeeded:
        yield from _seed_runs(client, job, path)


def _so_far(client: "Client", job: JobView) -> Iterator[TrackedPoint]:
    """Yield a running job's training loss, the median over replicates.

    What was sent before is never revised: trials that have ended since are not in the new point.
    """
    curves = client.jobs.metrics(job.id, names=["train_loss"], max_points=2)
    if last := max((curve.steps[-1] for curve in curves), default=0):
        live = [curve.values[-1] for curve in curves if curve.steps[-1] == last]
        losses = [math.inf if value is None else value for value in live]
        yield TrackedPoint("curves/train_loss_now", last, median(losses))


def _seed_runs(client: "Client", job: JobView, path: tuple[str, ...]) -> Iterator[TrackedRun]:
    """Yield a run for the trial that each seed keeps."""
    results = client.jobs
    curves = results.metrics(job.id, max_points=MOST_POINTS)
    scored = results.evaluations(job.id, attached=True)
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


def _curve_points(curves: list[Curve]) -> Iterator[TrackedPoint]:
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
        figures = {"accuracy": score.accuracy, "loss": score.loss, **score.measures}
        for figure, value in figures.items():
            if value is not None:
                yield TrackedPoint(f"test{beside}{again}/{figure}", one.steps, value)


def _text(document: object) -> str:
    return json.dumps(document, sort_keys=True)


def _page(client: "Client", kind: str, name: str) -> str:
    return f"{client.url.rstrip('/')}/{kind}/{name}"
