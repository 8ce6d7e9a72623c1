"""`adaptlab jobs` about one job: events, metrics, evaluations, outcomes, replicates, attempts."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
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
    from adaptlab.measurements.results import ReplicateResult
    from adaptlab_answers.jobs import EventView, ProgressNews
    from adaptlab_answers.results import AttemptView, Curve, EvaluationView

E = TypeVar("E")

EVENTS = ("sequence", "at", "type", "data")
EVALUATIONS = ("id", "seed", "task", "split", "adaptation", "correct", "total", "accuracy")
REPLICATES = (
    "replicate", "seed", "trial", "learning rate", "weight decay", "status", "selected", "steps",
    "final loss", "validation accuracy",
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
        found = jobs.events(job, after=after) if follow else jobs.events_so_far(job, after=after)
        if output is Output.TABLE:
            for event in found:
                print(one_line(_line(event)), flush=True)
        else:
            print_list(_flushed(found), EVENTS, _event, output, "sequence")


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
        found = client.jobs.metrics(
            job, names=name or (), replicates=replicate or (), max_points=max_points
        )
    if output is Output.CSV:
        points = ([p.name, p.replicate, p.step, p.value] for one in found for p in one.points())
        print_rows(POINTS, points, output)
    else:
        print_list(found, CURVES, _curve, output, "name")


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
        found = client.jobs.evaluations(job, attached=attached)
    if output in (Output.TABLE, Output.CSV):
        print_rows(EVALUATIONS, _evaluation_rows(found), output)
    else:
        print_values(found, output)


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
        found = client.jobs.outcomes(job, evaluation)
    if output in (Output.TABLE, Output.CSV):
        print_rows(("item", "right"), enumerate(found.outcomes), output)
    else:
        print_values([found], output, "evaluation_id")


def replicates(
    context: typer.Context, job: JobArgument, output: OutputOption = Output.TABLE
) -> None:
    """List how every seed and trial of a job ended."""
    with open_client(context) as client:
        found = client.jobs.replicates(job)
    print_list(found, REPLICATES, _replicate, output, "replicate")


def attempts(context: typer.Context, job: JobArgument, output: OutputOption = Output.TABLE) -> None:
    """List the attempts of a job: where and when each ran, how it ended, and its usage."""
    with open_client(context) as client:
        found = client.jobs.attempts(job)
    print_list(found, ATTEMPTS, _attempt, output, "attempt")


def commands() -> dict[str, Callable[..., None]]:
    """The commands by name."""
    return {
        "events": events,
        "metrics": metrics,
        "evaluations": evaluations,
        "outcomes": outcomes,
        "replicates": replicates,
        "attempts": attempts,
    }


def _flushed(found: Iterable[E]) -> Iterator[E]:
    """The same; whoever reads the other end of a pipe has each before the next comes."""
    for one in found:
        yield one
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
    known = [value for value in curve.values if value is not None]
    ends = [curve.steps[0], curve.steps[-1], curve.values[0], curve.values[-1]]
    points = curve.total_points or len(curve.steps)
    row = ends if curve.steps else [None] * len(ends)
    return [curve.name, curve.replicate, points, *row, min(known, default=None)]


def _evaluation_rows(evaluations: Sequence["EvaluationView"]) -> list[list[object]]:
    from adaptlab.comparisons.scores import task_labels

    return [
        [
            *(e.id, e.seed, label, e.split, "attached" if e.attached else "detached"),
            *(e.correct, e.total, Share(e.accuracy)),
        ]
        for label, e in zip(task_labels([e.task for e in evaluations]), evaluations, strict=True)
    ]


def _replicate(one: "ReplicateResult") -> list[object]:
    accuracy = None if one.validation_accuracy is None else Share(one.validation_accuracy)
    return [
        one.replicate, one.seed, one.trial, one.learning_rate, one.weight_decay, one.status,
        one.selected, one.steps, one.final_loss, accuracy,
    ]  # fmt: skip


def _attempt(one: "AttemptView") -> list[object]:
    seconds = None
    if one.ended_at is not None:
        seconds = (one.ended_at - one.started_at).total_seconds()
    peak = None if one.usage is None else round(one.usage.peak_memory_bytes / 2**20)
    return [
        one.attempt, one.host, one.started_at, one.ended_at, one.outcome, one.reason, seconds, peak,
    ]  # fmt: skip
