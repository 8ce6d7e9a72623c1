"""`adaptlab jobs`: submit, list, show, annotate, wait, cancel, delete and more."""

from itertools import islice
from typing import Annotated

import typer

from adaptlab_client.cli.annotating import (
    ArchivedOption,
    ArchiveOption,
    LabelOption,
    Listed,
    NameOption,
    NotesOption,
    RemoveLabelOption,
    annotation_of,
    archived_of,
)
from adaptlab_client.cli.commands import job_results
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.job_tables import (
    COLUMNS,
    SCORE_COLUMNS,
    facts_of,
    obstacles_of,
    print_drift,
    print_groups,
    print_jobs,
    print_measures,
    print_preview,
    print_retention,
    row_of,
    score_rows,
)
from adaptlab_client.cli.printing.terminal import (
    Output,
    complain,
    one_line,
    print_rows,
    print_table,
    print_value,
    say,
)
from adaptlab_client.cli.questions import DeleteOption, confirm_deletion
from adaptlab_client.cli.session import JobArgument, JobsArgument, OutputOption, open_client
from adaptlab_client.cli.specs import read_spec
from adaptlab_client.cli.waiting import (
    AnyOption,
    TimeoutOption,
    WaitOption,
    show_new_job,
    wait_for,
)


def submit(
    context: typer.Context,
    file: Annotated[
        str | None, typer.Argument(help="Job spec in YAML or JSON; `-` reads stdin.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Set one value of the spec."),
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="Requests with the same key and spec create one job only.")
    ] = None,
    validate_only: Annotated[
        bool,
        typer.Option(
            "--validate-only", help="Check the spec and show what would run; create nothing."
        ),
    ] = False,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a job from a spec and print its id."""
    spec = read_spec(file, settings or ())
    with open_client(context) as client:
        if validate_only:
            print_preview(client.jobs.preview(spec), output)
            return
        job = client.jobs.submit(spec, idempotency_key=idempotency_key)
        show_new_job(client, job, output, wait=wait, timeout=timeout)


def list_jobs(
    context: typer.Context,
    state: Annotated[list[str] | None, typer.Option(help="Only jobs in this state.")] = None,
    filter_text: Annotated[
        str | None,
        typer.Option("--filter", help="Filter, such as: method = lora AND budget.trainable <= 96"),
    ] = None,
    order_by: Annotated[str | None, typer.Option(help="Order, such as -created_at.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Jobs to show; 0 shows all.")] = 50,
    archived: ArchivedOption = Listed.EXCLUDE,
    output: OutputOption = Output.TABLE,
) -> None:
    """List jobs, newest first."""
    by_state = f"state IN ({', '.join(state)})" if state else None
    with open_client(context) as client:
        if by_state and filter_text:
            # Checked on its own: inside brackets, errors would have other character positions.
            next(client.jobs.summaries(filter=filter_text, page_size=1), None)
            filter_text = f"({filter_text}) AND {by_state}"
        # Tables and ids need no specs.
        is_whole = output in (Output.JSON, Output.JSONL)
        list_matching = client.jobs.list if is_whole else client.jobs.summaries
        jobs = list_matching(
            filter=filter_text or by_state,
            order_by=order_by,
            page_size=min(limit or 200, 200),
            archived=archived_of(archived),
        )
        print_jobs(islice(jobs, limit or None), output)


def show(context: typer.Context, job: JobArgument, output: OutputOption = Output.TABLE) -> None:
    """Show one job: spec, progress and scores."""
    with open_client(context) as client:
        view = client.jobs.get(job)
        if output is Output.CSV:
            print_rows(COLUMNS, [row_of(view)], output)
            return
        if output is not Output.TABLE:
            print_value(view, output)
            return
        print_table(("field", "value"), facts_of(view))
        for obstacle in obstacles_of(view):
            complain(f"warning: {obstacle}")
        evaluations = client.jobs.evaluations(job)
        if evaluations:
            print()
            print_table(SCORE_COLUMNS, score_rows(evaluations))
            print_measures(evaluations)
            print_groups(client.jobs.group_scores(job))
        if any(not one.attached for one in evaluations):
            print_retention(client.jobs.retention(job))
            print_drift(client.jobs.drift(job))


def annotate(
    context: typer.Context,
    jobs: JobsArgument,
    name: NameOption = None,
    labels: LabelOption = None,
    removed: RemoveLabelOption = None,
    notes: NotesOption = None,
    archive: ArchiveOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change the name, labels and notes of jobs, or archive them, whatever their state.

    An empty name removes it. A job that creates a base model has that model's name.
    """
    to = annotation_of(jobs, name, labels, removed, notes, archive)
    with open_client(context) as client:
        changed = [
            client.jobs.annotate(
                job, name=to.name, labels=to.labels, notes=to.notes, archived=to.archived
            )
            for job in jobs
        ]
        print_jobs(changed, output)


def wait(
    context: typer.Context,
    jobs: JobsArgument,
    timeout: TimeoutOption = None,
    any_of: AnyOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Wait for jobs to end; exit with 0 if all succeeded, else with 1."""
    with open_client(context) as client:
        wait_for(client, jobs, timeout, any_of=any_of, output=output, printed=False)


def cancel(context: typer.Context, jobs: JobsArgument, output: OutputOption = Output.TABLE) -> None:
    """Cancel jobs; running ones stop soon after."""
    with open_client(context) as client:
        print_jobs([client.jobs.cancel(job) for job in jobs], output)


def delete(context: typer.Context, jobs: JobsArgument, yes: DeleteOption = False) -> None:
    """Delete jobs that have ended and that nothing needs, with their results.

    Only an admin of the project can do this. Jobs of studies can be deleted with the study.
    """
    what = f"the job {one_line(jobs[0])}" if len(jobs) == 1 else f"{len(jobs)} jobs"
    confirm_deletion(what, yes=yes)
    with open_client(context) as client:
        for job in jobs:
            client.jobs.delete(job)
            say(f"deleted job {one_line(job)}")


def pause(context: typer.Context, jobs: JobsArgument, output: OutputOption = Output.TABLE) -> None:
    """Pause jobs; running ones save their state and stop soon after."""
    with open_client(context) as client:
        print_jobs([client.jobs.pause(job) for job in jobs], output)


def resume(context: typer.Context, jobs: JobsArgument, output: OutputOption = Output.TABLE) -> None:
    """Resume paused jobs where they stopped."""
    with open_client(context) as client:
        print_jobs([client.jobs.resume(job) for job in jobs], output)


def retry(context: typer.Context, jobs: JobsArgument, output: OutputOption = Output.TABLE) -> None:
    """Retry failed or cancelled jobs, and print the new jobs."""
    with open_client(context) as client:
        print_jobs([client.jobs.retry(job) for job in jobs], output)


def application() -> typer.Typer:
    """Return the commands of `adaptlab jobs`."""
    return group(
        "jobs",
        "Submit, list, show, wait for, pause and cancel jobs, and read their results.",
        {
            "submit": submit,
            "list": list_jobs,
            "show": show,
            "annotate": annotate,
            "wait": wait,
            "cancel": cancel,
            "delete": delete,
            "pause": pause,
            "resume": resume,
            "retry": retry,
            **job_results.commands(),
        },
    )
