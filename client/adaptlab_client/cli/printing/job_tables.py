"""Rows of jobs, of previews and of scores."""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.printing.fetches import fetch_text
from adaptlab_client.cli.printing.terminal import (
    Output,
    Share,
    complain,
    print_list,
    print_one,
    print_rows,
    print_table,
    print_value,
)

if TYPE_CHECKING:
    from adaptlab.comparisons.group_scores import GroupScore
    from adaptlab.comparisons.scores import ScoreChange
    from adaptlab.comparisons.task_retention import TaskRetention, TextDrift
    from adaptlab.statistics import Interval
    from adaptlab_answers.jobs import Estimate, JobSummary, JobView, Preview
    from adaptlab_answers.results import EvaluationView

COLUMNS = (
    "id", "state", "kind", "base model", "task", "method", "trainable", "accuracy", "progress",
    "reason", "owner", "created",
)  # fmt: skip
WANTED = ("id", "state", "task", "method", "accuracy", "created")
"""The columns that a narrow terminal shows first."""
MAKING = ("pretrain", "import")
"""Kinds of jobs whose name is that of the base model that they create."""
SCORE_COLUMNS = (
    "task", "split", "seeds", "accuracy", "95 % interval", "base alone", "change in points",
)  # fmt: skip


DRIFT_COLUMNS = ("texts", "KL, nats per token", "base, bits per byte", "change, bits per byte")
MEASURE_COLUMNS = ("task", "metric", "seeds", "mean", "95 % interval", "base alone")
GROUP_COLUMNS = (
    "group", "metric", "tasks", "items", "seeds", "mean", "95 % interval", "base alone",
)  # fmt: skip
RETENTION_COLUMNS = ("old task", "floor", "base alone", "retention")


def print_jobs(jobs: "Iterable[JobSummary]", output: Output) -> None:
    """Print jobs in the requested format, one row per job."""
    print_list(jobs, COLUMNS, row_of, output, wanted=WANTED)


def print_job(job: "JobView", output: Output) -> None:
    """Print one job in the requested format."""
    print_one(job, COLUMNS, row_of, output)


def row_of(job: "JobSummary") -> list[object]:
    """Return the cells of `COLUMNS` for one job."""
    base = job.base_model or (job.name if job.kind in MAKING else None)
    total = job.progress.total
    progress = Share(job.progress.step / total) if total else None
    accuracy = None if job.accuracy is None else Share(job.accuracy)
    return [
        job.id, job.state, job.kind, base, job.task_label, job.method,
        job.trainable_parameters, accuracy, progress, job.reason, job.owner, job.created_at,
    ]  # fmt: skip


def facts_of(job: "JobView") -> list[tuple[str, object]]:
    """Return the names and values of a job's members, without empty ones."""
    titles = zip(COLUMNS, row_of(job), strict=True)
    more: list[tuple[str, object]] = [
        ("name", job.name),
        ("error", job.error),
        ("fetch", job.fetch and fetch_text(job.fetch)),
        ("datasets", ", ".join(map(str, job.resolved_spec.dataset_origins))),
        ("attempt", job.attempt),
        ("queue", job.queue.name if job.queue else None),
        ("worker", job.worker.host if job.worker else None),
        ("labels", ", ".join(f"{name}={value}" for name, value in job.labels.items())),
        ("notes", job.notes),
        ("archived", job.archived_at),
        ("started", job.started_at),
        ("finished", job.finished_at),
        ("spec digest", job.spec_digest),
    ]
    return [(name, value) for name, value in (*titles, *more) if value not in (None, "")]


def obstacles_of(job: "JobView") -> list[str]:
    """Return why no live worker takes a job, in words."""
    return [
        f"{job.id} stays queued: no worker that is alive can read the model root `{root}`"
        for root in job.queue.unread_roots
    ]


def score_rows(evaluations: Sequence["EvaluationView"]) -> list[list[object]]:
    """Return one row per task and split, with test scores of the base.

    Rows of other base models follow, each with the score of that base alone.
    """
    names = dict.fromkeys((None, *(one.base_model for one in evaluations)))
    return [
        row
        for name in names
        for row in _score_rows([one for one in evaluations if one.base_model == name], name)
    ]


def _score_rows(evaluations: Sequence["EvaluationView"], on: str | None) -> Iterator[list[object]]:
    from adaptlab.comparisons.scores import (
        has_right_answers,
        mean_accuracy,
        score_changes,
        task_labels,
    )

    evaluations = [one for one in evaluations if has_right_answers(one.task)]
    labels = task_labels([e.task for e in evaluations])
    changes = {json.dumps(change.task): change for change in score_changes(evaluations)}
    by_split: dict[tuple[str, str], list[EvaluationView]] = {}
    for label, evaluation in zip(labels, evaluations, strict=True):
        if evaluation.attached:
            by_split.setdefault((label, evaluation.split), []).append(evaluation)
    for (label, split), scores in by_split.items():
        accuracy = mean_accuracy(scores)
        change = changes.get(json.dumps(scores[0].task)) if split == "test" else None
        task = label if on is None else f"{label} on {on}"
        yield [
            *(task, split, accuracy.seeds, f"{100 * accuracy.mean:.1f} %"),
            _interval(accuracy),
            "" if change is None else f"{100 * change.before.mean:.1f} %",
            "" if change is None else _points(change),
        ]


def print_measures(evaluations: Sequence["EvaluationView"]) -> None:
    """Print the metrics that tasks ask for, and the near ties of standard tasks."""
    from adaptlab.comparisons.task_measures import measure_rows, near_tie_counts

    own = [one for one in evaluations if one.base_model is None]
    rows = [
        (
            *(one.task, one.metric.title, one.adapted.seeds, one.metric.figure(one.adapted.mean)),
            f"{one.metric.figure(one.adapted.low)} – {one.metric.figure(one.adapted.high)}"
            if one.adapted.low is not None and one.adapted.high is not None
            else "",
            "" if one.alone is None else one.metric.figure(one.alone),
        )
        for one in measure_rows(own)
    ]
    if rows:
        print()
        print_table(MEASURE_COLUMNS, rows)
    for told in near_tie_counts(own):
        print(told)


def print_retention(tasks: Sequence["TaskRetention"]) -> None:
    """Print the retention of old tasks, and why it was not measured."""
    from adaptlab.comparisons.scores import task_labels

    if not tasks:
        return
    labels = task_labels([one.task for one in tasks])
    print()
    print_table(
        RETENTION_COLUMNS,
        [
            (label, f"{100 * one.floor:.1f} %", f"{100 * one.base:.1f} %", one.figure)
            for label, one in zip(labels, tasks, strict=True)
        ],
    )
    for label, one in zip(labels, tasks, strict=True):
        if one.remark is not None:
            print(f"{label}: {one.remark}")


def print_groups(groups: Sequence["GroupScore"]) -> None:
    """Print the scores of groups of standard tasks."""
    if not groups:
        return
    rows = [
        (
            *(one.label, one.metric, one.tasks, one.items, one.accuracy.seeds),
            *(f"{100 * one.accuracy.mean:.1f} %", _interval(one.accuracy)),
            "" if one.alone is None else f"{100 * one.alone.mean:.1f} %",
        )
        for one in groups
    ]
    print()
    print_table(GROUP_COLUMNS, rows)


def print_drift(texts: Sequence["TextDrift"]) -> None:
    """Print how far the adapted models are from their base on texts."""
    from adaptlab.comparisons.scores import task_labels

    if not texts:
        return
    labels = task_labels([one.task for one in texts])
    rows = [
        (label, one.kl_figure, f"{one.bits_base:.3f}", one.bits_figure)
        for label, one in zip(labels, texts, strict=True)
    ]
    print()
    print_table(DRIFT_COLUMNS, rows)


def _interval(accuracy: "Interval") -> str:
    note = " (over items only)" if accuracy.over_items_only else ""
    return f"{100 * accuracy.low:.1f} – {100 * accuracy.high:.1f} %{note}"


def _points(change: "ScoreChange") -> str:
    """Return the mean change over seeds, with the range if there are several."""
    mean, low, high = (f"{100 * share:+.1f}" for share in (change.mean, change.low, change.high))
    return mean if change.seeds == 1 else f"{mean} ({low} to {high})"


def print_preview(preview: "Preview", output: Output) -> None:
    """Print the preview of a job."""
    for warning in preview.warnings:
        complain(f"warning: {warning}")
    if output is Output.ID:
        raise UsageError(
            "--validate-only creates no job, so there is no id to print. Use another --output."
        )
    if output in (Output.JSON, Output.JSONL):
        print_value(preview, output)
        return
    budget = preview.budget
    resolved = preview.resolved_spec.model_dump(mode="json")
    rows: list[tuple[str, object]] = [
        ("trainable parameters", budget.trainable_parameters),
        ("unused budget", budget.gap),
        ("stored bytes", budget.stored_bytes),
        ("extra context tokens", budget.extra_context_tokens),
        ("method", resolved.get("method")),
        ("training", resolved.get("training")),
        ("seeds", resolved.get("seeds")),
        ("spec digest", preview.spec_digest),
        *_estimate_rows("", preview.estimate),
        *_estimate_rows("base model's ", preview.base_estimate),
    ]
    print_rows(("field", "value"), rows, output)


def _estimate_rows(whose: str, estimate: "Estimate | None") -> list[tuple[str, object]]:
    if estimate is None:
        return []
    return [
        (f"{whose}run time", f"about {timedelta(seconds=round(estimate.seconds))} (h:mm:ss)"),
        (f"{whose}memory", f"about {estimate.memory_bytes / 2**20:,.0f} MiB"),
        (f"{whose}checkpoints", f"{estimate.stored_bytes:,} bytes"),
        (f"{whose}saved state", f"{estimate.saved_bytes:,} bytes until the job ends"),
        (f"{whose}estimate", estimate.explanation),
    ]
