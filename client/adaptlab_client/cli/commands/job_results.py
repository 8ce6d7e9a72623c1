"""The commands of `adaptlab jobs` for the results and events of one job."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from adaptlab_client.cli.printing.terminal import (
    Output,
    Share,
    json_text,
    one_line,
    print_list,
    print_rows,
    print_values,
)
from adaptlab_client.cli.session import JobArgument, OutputOption, open_client

if TYPE_CHECKING:
    from adaptlab.runs.events import ReplicateResult
    from adaptlab_answers.jobs import EventView, ProgressNews
    from adaptlab_answers.results import AttemptView, Curve, EvaluationView

E = TypeVar("E")

EVENTS = ("sequence", "at", "type", "data")
EVALUATIONS = (
    "id", "seed", "task", "split", "adaptation", "correct", "total", "accuracy", "loss",
    "other base",
)  # fmt: skip
REPLICATES = (
    "replicate", "seed", "trial", "learning rate", "weight decay", "status", "selected", "steps",
    "final loss", "validation accuracy", "validation metric",
)  # fmt: skip
ATTEMPTS = ("attempt", "host", "started", "ended", "outcome", "reason", "seconds", "peak MiB")
CURVES = ("name", "replicate", "points", "first step", "last step", "first", "last", "least")
POINTS = ("name", "replicate", "step", "value")


def events(
    context: typer.Context,
    job: JobArgument,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Follow the events and the progress until the job ends."
        ),
    ] = False,
    after: Annotated[int, typer.Option(min=0, help="Only events after this number.")] = 0,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the events of a job, oldest first, one per line."""
    with open_client(context) as client:
        jobs = client.jobs
        stream = jobs.events(job, after=after) if follow else jobs.events_so_far(job, after=after)
        if output is Output.TABLE:
            for event in stream:
                print(one_line(_line(event)), flush=True)
        else:
            print_list(_flushed(stream), EVENTS, _event, output, "sequence")


def metrics(
    context: typer.Context,
    job: JobArgument,
    name: Annotated[list[str] | None, typer.Option(help="Only this metric. Repeatable.")] = None,
    replicate: Annotated[
        list[int] | None, typer.Option(min=0, help="Only this replicate. Repeatable.")
    ] = None,
    max_points: Annotated[
        int, typer.Option(min=2, help="Thin curves that have more points than this.")
    ] = 1000,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the learning curves of a job: one row per curve, or per point with csv."""
    with open_client(context) as client:
        curves = client.jobs.metrics(
            job, names=name or (), replicates=replicate or (), max_points=max_points
        )
    if output is Output.CSV:
        points = (
            [p.name, p.replicate, p.step, p.value] for curve in curves for p in curve.points()
        )
        print_rows(POINTS, points, output)
    else:
        print_list(curves, CURVES, _curve, output, "name")


def evaluations(
    context: typer.Context,
    job: JobArgument,
    attached: Annotated[
        bool | None,
        typer.Option(
            "--attached/--detached",
            help="Only scores with the adaptation, or only those of the base model alone.",
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the scores of a job per seed and task, with its base model's on the same items."""
    with open_client(context) as client:
        scores = client.jobs.evaluations(job, attached=attached)
    if output in (Output.TABLE, Output.CSV):
        from adaptlab.plugins.metric import METRICS

        measured = tuple(dict.fromkeys(name for one in scores for name in one.measures))
        titles = (METRICS.get(name).in_sentence for name in measured)
        print_rows((*EVALUATIONS, *titles), _evaluation_rows(scores, measured), output)
    else:
        print_values(scores, output)


def outcomes(
    context: typer.Context,
    job: JobArgument,
    evaluation: Annotated[
        int, typer.Argument(metavar="EVALUATION", help="From `adaptlab jobs evaluations`.")
    ],
    output: OutputOption = Output.TABLE,
) -> None:
    """Show which items of an evaluation were right, in item order."""
    with open_client(context) as client:
        listing = client.jobs.outcomes(job, evaluation)
    if output in (Output.TABLE, Output.CSV):
        print_rows(("item", "right"), enumerate(listing.outcomes), output)
    else:
        print_values([listing], output, "evaluation_id")


def replicates(
    context: typer.Context, job: JobArgument, output: OutputOption = Output.TABLE
) -> None:
    """List how every seed and trial of a job ended."""
    with open_client(context) as client:
        results = client.jobs.replicates(job)
        task = client.jobs.get(job).resolved_spec.task or {}
    row_of = partial(_replicate, name=str(task.get("metric")))
    print_list(results, REPLICATES, row_of, output, "replicate")


def attempts(context: typer.Context, job: JobArgument, output: OutputOption = Output.TABLE) -> None:
    """List the attempts of a job: where and when each ran, how it ended, and its usage."""
    with open_client(context) as client:
        runs = client.jobs.attempts(job)
    print_list(runs, ATTEMPTS, _attempt, output, "attempt")


def commands() -> dict[str, Callable[..., None]]:
    """Return the commands by name."""
    return {
        "events": events,
        "metrics": metrics,
        "evaluations": evaluations,
        "outcomes": outcomes,
        "replicates": replicates,
        "attempts": attempts,
    }


def _flushed(items: Iterable[E]) -> Iterator[E]:
    """Yield the items, and flush stdout after each, for readers of a pipe."""
    for item in items:
        yield item
        sys.stdout.flush()


def _event(event: "EventView | ProgressNews") -> list[object]:
    from adaptlab_answers.jobs import EventView

    if isinstance(event, EventView):
        return [event.sequence, event.at, event.type, event.data]
    return [None, None, "progress", event.model_dump(mode="json")]


def _line(event: "EventView | ProgressNews") -> str:
    number, at, kind, data = _event(event)
    when = f"{at:%Y-%m-%d %H:%M:%S}" if isinstance(at, datetime) else ""
    more = json_text(data) if data else ""
    return f"{'' if number is None else number:>4}  {when:<19}  {kind}  {more}".rstrip()


def _curve(curve: "Curve") -> list[object]:
    values = [value for value in curve.values if value is not None]
    ends = [curve.steps[0], curve.steps[-1], curve.values[0], curve.values[-1]]
    points = curve.total_points or len(curve.steps)
    row = ends if curve.steps else [None] * len(ends)
    return [curve.name, curve.replicate, points, *row, min(values, default=None)]


def _evaluation_rows(
    evaluations: Sequence["EvaluationView"], measured: Sequence[str]
) -> list[list[object]]:
    from adaptlab.comparisons.scores import has_right_answers, task_labels

    return [
        [
            *(e.id, e.seed, label, e.split, "attached" if e.attached else "detached"),
            *((e.correct, e.total) if has_right_answers(e.task) else (None, e.total)),
            Share(e.accuracy) if has_right_answers(e.task) else None,
            e.loss,
            e.base_model,
            *(_measure(name, e.measures.get(name)) for name in measured),
        ]
        for label, e in zip(task_labels([e.task for e in evaluations]), evaluations, strict=True)
    ]


def _measure(name: str, value: float | None) -> object:
    from adaptlab.plugins.metric import is_share

    return Share(value) if value is not None and is_share(name) else value


def _replicate(row: "ReplicateResult", *, name: str) -> list[object]:
    accuracy = None if row.validation_accuracy is None else Share(row.validation_accuracy)
    metric = _measure(name, row.validation_metric)
    return [
        row.replicate, row.seed, row.trial, row.learning_rate, row.weight_decay, row.status,
        row.selected, row.steps, row.final_loss, accuracy, metric,
    ]  # fmt: skip


def _attempt(row: "AttemptView") -> list[object]:
    seconds = None
    if row.ended_at is not None:
        seconds = (row.ended_at - row.started_at).total_seconds()
    peak = None if row.usage is None else round(row.usage.peak_memory_bytes / 2**20)
    return [
        row.attempt, row.host, row.started_at, row.ended_at, row.outcome, row.reason, seconds, peak,
    ]  # fmt: skip
