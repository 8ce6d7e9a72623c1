"""`adaptlab jobs`: submit, list, show, their scores, wait, cancel, pause, resume, retry."""

import json
from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import ExitCode, UsageFault
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.session import JobArgument, JobsArgument, OutputOption, open_client
from adaptlab_client.cli.specs import read_spec
from adaptlab_client.cli.terminal import (
    Output,
    print_list,
    print_table,
    print_value,
    print_values,
    say,
)

if TYPE_CHECKING:
    from adaptlab.scores import ScoreChange
    from adaptlab.statistics import Interval
    from adaptlab_client.answers import Estimate, Evaluation, Job
    from adaptlab_client.client import Client

TimeoutOption = Annotated[
    float | None, typer.Option(min=0, help="Seconds to wait at most; then the exit code is 124.")
]
COLUMNS = ("id", "state", "kind", "base model", "task", "method", "trainable", "progress", "reason")

SCORE_COLUMNS = (
    "task", "split", "seeds", "accuracy", "95 % interval", "base alone", "change in points",
)  # fmt: skip
EVALUATION_COLUMNS = ("id", "seed", "task", "split", "adaptation", "correct", "total", "accuracy")


def submit(
    context: typer.Context,
    file: Annotated[
        str | None, typer.Argument(help="Job spec in YAML or JSON; `-` reads stdin.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Lay one value over the spec."),
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key and spec make one job, however often sent.")
    ] = None,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check and show what would run; keep nothing.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Stay until it has ended; exit as `jobs wait` does.")
    ] = False,
    timeout: TimeoutOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a job from a spec and print its identity."""
    spec = read_spec(file, settings or ())
    with open_client(context) as client:
        if validate_only:
            _preview(client, spec, output)
            return
        job = client.jobs.submit(spec, idempotency_key=idempotency_key)
        if not wait:
            print_job(job, output)
            return
        if output is Output.ID:
            print_value(job, output)  # at once, for a script that is stopped while it waits
        wait_for(client, [job.id], timeout, any_of=False, output=output, printed=True)


def list_jobs(
    context: typer.Context,
    state: Annotated[list[str] | None, typer.Option(help="Only jobs in this state.")] = None,
    filter_text: Annotated[
        str | None,
        typer.Option("--filter", help="Such as: method = lora AND trainable_parameters <= 96"),
    ] = None,
    order_by: Annotated[str | None, typer.Option(help="Such as -created_at.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Jobs to show; 0 shows all.")] = 50,
    output: OutputOption = Output.TABLE,
) -> None:
    """List jobs, the newest first."""
    parts = [f"state IN ({', '.join(state)})"] if state else []
    parts += [f"({filter_text})"] if filter_text else []
    with open_client(context) as client:
        found = client.jobs.list(
            filter=" AND ".join(parts) or None,
            order_by=order_by,
            page_size=min(limit or 200, 200),
        )
        print_jobs(islice(found, limit or None), output)


def show(context: typer.Context, job: JobArgument, output: OutputOption = Output.TABLE) -> None:
    """Show one job: what it is, how far it is, and its scores."""
    with open_client(context) as client:
        found = client.jobs.get(job)
        if output is not Output.TABLE:
            print_value(found, output)
            return
        print_table(("field", "value"), _facts(found))
        evaluations = client.jobs.evaluations(job)
        if evaluations:
            print()
            print_table(SCORE_COLUMNS, _scores(evaluations))


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
    """List the scores of a job: every seed on every task, and its base model on the same items."""
    with open_client(context) as client:
        found = client.jobs.evaluations(job, attached=attached)
    if output is Output.TABLE:
        print_table(EVALUATION_COLUMNS, _evaluation_rows(found))
    else:
        print_values(found, output)


def wait(
    context: typer.Context,
    jobs: JobsArgument,
    timeout: TimeoutOption = None,
    any_of: Annotated[
        bool, typer.Option("--any/--all", help="Until the first has ended, or until all have.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Wait for jobs to end; the exit code is 0 when they succeeded, 1 when one did not."""
    with open_client(context) as client:
        wait_for(client, jobs, timeout, any_of=any_of, output=output, printed=False)


def cancel(context: typer.Context, jobs: JobsArgument, output: OutputOption = Output.TABLE) -> None:
    """Cancel jobs; one that is running stops soon after."""
    with open_client(context) as client:
        print_jobs([client.jobs.cancel(job) for job in jobs], output)


def pause(context: typer.Context, jobs: JobsArgument, output: OutputOption = Output.TABLE) -> None:
    """Pause jobs; one that is running stops soon after, with its state saved."""
    with open_client(context) as client:
        print_jobs([client.jobs.pause(job) for job in jobs], output)


def resume(context: typer.Context, jobs: JobsArgument, output: OutputOption = Output.TABLE) -> None:
    """Let paused jobs go on where they were."""
    with open_client(context) as client:
        print_jobs([client.jobs.resume(job) for job in jobs], output)


def retry(context: typer.Context, jobs: JobsArgument, output: OutputOption = Output.TABLE) -> None:
    """Make jobs that failed or were cancelled anew, and print the new ones."""
    with open_client(context) as client:
        print_jobs([client.jobs.retry(job) for job in jobs], output)


def application() -> typer.Typer:
    """The commands below `adaptlab jobs`."""
    return group(
        "Submit jobs, look at them, wait for them, stop them.",
        {
            "submit": submit,
            "list": list_jobs,
            "show": show,
            "evaluations": evaluations,
            "wait": wait,
            "cancel": cancel,
            "pause": pause,
            "resume": resume,
            "retry": retry,
        },
    )


def wait_for(
    client: "Client",
    job_ids: Sequence[str],
    timeout: float | None,
    *,
    any_of: bool,
    output: Output,
    printed: bool,
) -> None:
    """Wait, print every job as it ends, and leave with the code that says how they ended."""
    from adaptlab_client.cli.progress import bars  # rich, loaded for those who wait

    ended: list[Job] = []
    wanted = list(dict.fromkeys(job_ids))
    with bars() as update:
        for job in client.jobs.as_ended(wanted, timeout=timeout, on_progress=update):
            ended.append(job)
            if any_of:
                break
    if output is not Output.ID or not printed:
        print_jobs(ended, output)
    unsuccessful = [job for job in ended if not job.succeeded]
    for job in unsuccessful:
        say(f"{job.id} {job.state}: {_why(job)}")
    if unsuccessful:
        raise typer.Exit(ExitCode.JOB_FAILED)


def _preview(client: "Client", spec: dict[str, object], output: Output) -> None:
    preview = client.jobs.preview(spec)
    for warning in preview.warnings:
        say(f"warning: {warning}")
    if output is Output.ID:
        raise UsageFault("--validate-only makes no job, so there is no id to print.")
    if output is not Output.TABLE:
        print_value(preview, output)
        return
    budget = preview.budget
    rows: list[tuple[str, object]] = [
        ("trainable parameters", budget.trainable_parameters),
        ("unused budget", budget.gap),
        ("stored bytes", budget.stored_bytes),
        ("extra context tokens", budget.extra_context_tokens),
        ("method", preview.resolved_spec.get("method")),
        ("training", preview.resolved_spec.get("training")),
        ("seeds", preview.resolved_spec.get("seeds")),
        ("spec digest", preview.spec_digest),
        *_estimate_rows("", preview.estimate),
        *_estimate_rows("base model's ", preview.base_estimate),
    ]
    print_table(("field", "value"), rows)


def _estimate_rows(whose: str, estimate: "Estimate | None") -> list[tuple[str, object]]:
    if estimate is None:
        return []
    return [
        (f"{whose}run time", f"about {timedelta(seconds=round(estimate.seconds))} (h:mm:ss)"),
        (f"{whose}memory", f"about {estimate.memory_bytes / 2**20:,.0f} MiB"),
        (f"{whose}estimate", estimate.explanation),
    ]


def print_jobs(jobs: "Iterable[Job]", output: Output) -> None:
    """Print jobs as asked, a row each."""
    print_list(jobs, COLUMNS, row_of, output)


def print_job(job: "Job", output: Output) -> None:
    """Print one job as asked."""
    if output is Output.TABLE:
        print_table(COLUMNS, [row_of(job)])
    else:
        print_value(job, output)


def row_of(job: "Job") -> list[object]:
    """The cells of `COLUMNS` for one job."""
    trainable = job.budget.trainable_parameters if job.budget else None
    base = job.base_model or job.name
    progress = f"{job.progress.step}/{job.progress.total}" if job.progress.total else ""
    return [
        job.id, job.state, job.kind, base, job.task, job.method, trainable, progress, job.reason,
    ]  # fmt: skip


def _facts(job: "Job") -> list[tuple[str, object]]:
    titles = zip(COLUMNS, row_of(job), strict=True)
    more: list[tuple[str, object]] = [
        ("error", job.error),
        ("attempt", job.attempt),
        ("queue", job.queue.name if job.queue else None),
        ("worker", job.worker.host if job.worker else None),
        ("owner", job.owner),
        ("labels", ", ".join(f"{name}={value}" for name, value in job.labels.items())),
        ("created", job.created_at),
        ("started", job.started_at),
        ("finished", job.finished_at),
        ("spec digest", job.spec_digest),
    ]
    return [(name, value) for name, value in (*titles, *more) if value not in (None, "")]


def _scores(evaluations: Sequence["Evaluation"]) -> list[list[object]]:
    """One row a task and split; beside test scores, those of the base model alone."""
    from adaptlab.scores import mean_accuracy, score_changes, task_labels

    labels = task_labels([e.task for e in evaluations])
    changes = {json.dumps(change.task): change for change in score_changes(evaluations)}
    places: dict[tuple[str, str], list[Evaluation]] = {}
    for label, one in zip(labels, evaluations, strict=True):
        if one.attached:
            places.setdefault((label, one.split), []).append(one)
    rows: list[list[object]] = []
    for (label, split), found in places.items():
        accuracy = mean_accuracy(found)
        change = changes.get(json.dumps(found[0].task)) if split == "test" else None
        rows.append(
            [
                *(label, split, accuracy.seeds, f"{100 * accuracy.mean:.1f} %"),
                _interval(accuracy),
                "" if change is None else f"{100 * change.before.mean:.1f} %",
                "" if change is None else _points(change),
            ]
        )
    return rows


def _interval(accuracy: "Interval") -> str:
    note = " (over items only)" if accuracy.over_items_only else ""
    return f"{100 * accuracy.low:.1f} – {100 * accuracy.high:.1f} %{note}"


def _points(change: "ScoreChange") -> str:
    """The mean change over seeds, and the smallest and largest where there are several."""
    mean, low, high = (f"{100 * share:+.1f}" for share in (change.mean, change.low, change.high))
    return mean if change.seeds == 1 else f"{mean} ({low} to {high})"


def _evaluation_rows(evaluations: Sequence["Evaluation"]) -> list[list[object]]:
    from adaptlab.scores import task_labels

    return [
        [
            *(e.id, e.seed, label, e.split, "attached" if e.attached else "detached"),
            *(e.correct, e.total, f"{100 * e.accuracy:.1f} %"),
        ]
        for label, e in zip(task_labels([e.task for e in evaluations]), evaluations, strict=True)
    ]


def _why(job: "Job") -> str:
    error = job.error
    message = error.get("detail") or error.get("message") if isinstance(error, dict) else error
    return ": ".join(str(part) for part in (job.reason, message) if part) or "no reason was given"
