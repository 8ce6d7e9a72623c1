"""`adaptlab jobs`: submit, list, show, wait, cancel, pause, resume, retry."""

from itertools import islice
from typing import Annotated

import typer

from adaptlab_client.cli import job_results
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.job_tables import (
    COLUMNS,
    SCORE_COLUMNS,
    facts_of,
    print_job,
    print_jobs,
    print_preview,
    row_of,
    score_rows,
)
from adaptlab_client.cli.session import JobArgument, JobsArgument, OutputOption, open_client
from adaptlab_client.cli.specs import read_spec
from adaptlab_client.cli.terminal import Output, print_rows, print_table, print_value
from adaptlab_client.cli.waiting import AnyOption, TimeoutOption, WaitOption, wait_for


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
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a job from a spec and print its identity."""
    spec = read_spec(file, settings or ())
    with open_client(context) as client:
        if validate_only:
            print_preview(client.jobs.preview(spec), output)
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
        typer.Option("--filter", help="Such as: method = lora AND budget.trainable <= 96"),
    ] = None,
    order_by: Annotated[str | None, typer.Option(help="Such as -created_at.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Jobs to show; 0 shows all.")] = 50,
    output: OutputOption = Output.TABLE,
) -> None:
    """List jobs, the newest first."""
    chosen = f"state IN ({', '.join(state)})" if state else None
    with open_client(context) as client:
        if chosen and filter_text:
            # Inside brackets, errors would be at other characters than those that were typed.
            next(client.jobs.summaries(filter=filter_text, page_size=1), None)
            filter_text = f"({filter_text}) AND {chosen}"
        # Tables and ids say nothing of the specs.
        is_whole = output in (Output.JSON, Output.JSONL)
        list_them = client.jobs.list if is_whole else client.jobs.summaries
        found = list_them(
            filter=filter_text or chosen,
            order_by=order_by,
            page_size=min(limit or 200, 200),
        )
        print_jobs(islice(found, limit or None), output)


def show(context: typer.Context, job: JobArgument, output: OutputOption = Output.TABLE) -> None:
    """Show one job: what it is, how far it is, and its scores."""
    with open_client(context) as client:
        found = client.jobs.get(job)
        if output is Output.CSV:
            print_rows(COLUMNS, [row_of(found)], output)
            return
        if output is not Output.TABLE:
            print_value(found, output)
            return
        print_table(("field", "value"), facts_of(found))
        evaluations = client.jobs.evaluations(job)
        if evaluations:
            print()
            print_table(SCORE_COLUMNS, score_rows(evaluations))


def wait(
    context: typer.Context,
    jobs: JobsArgument,
    timeout: TimeoutOption = None,
    any_of: AnyOption = False,
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
        "jobs",
        "Submit jobs, look at them, wait for them, stop them, and read what they measured.",
        {
            "submit": submit,
            "list": list_jobs,
            "show": show,
            "wait": wait,
            "cancel": cancel,
            "pause": pause,
            "resume": resume,
            "retry": retry,
            **job_results.commands(),
        },
    )
