"""`adaptlab studies`: new, create, list, annotate, wait, extend, cancel, delete."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, cast

import typer

from adaptlab_client.cli import suggestions
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
from adaptlab_client.cli.commands import bundle, new_study, study_links, tracking
from adaptlab_client.cli.commands.study_links import StudyArgument
from adaptlab_client.cli.exits import ExitCode
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.job_tables import print_jobs
from adaptlab_client.cli.printing.questions import (
    DECISIONS,
    decision_row,
    print_decisions,
    print_question,
)
from adaptlab_client.cli.printing.study_plans import (
    method_title,
    place_of,
    print_preview,
    say_skipped,
)
from adaptlab_client.cli.printing.terminal import (
    Output,
    complain,
    one_line,
    print_list,
    print_rows,
    print_table,
    print_value,
    print_values,
    say,
)
from adaptlab_client.cli.questions import DeleteOption, confirm_deletion
from adaptlab_client.cli.session import OutputOption, open_client
from adaptlab_client.cli.specs import changed_members, read_spec
from adaptlab_client.cli.waiting import (
    AnyOption,
    TimeoutOption,
    WaitOption,
    counts,
    leave_unless_succeeded,
    studies_as_ended,
)

if TYPE_CHECKING:
    from adaptlab_answers.studies import StudySummary, StudyView
    from adaptlab_client.client import Client
    from adaptlab_client.transport.connection import Identity

OtherArgument = Annotated[str, typer.Argument(metavar="PROJECT", help="Name of the project.")]
StudiesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="STUDY…", help="Ids or names of studies.", autocompletion=suggestions.studies
    ),
]
FileArgument = Annotated[
    str | None,
    typer.Argument(help="Study spec in YAML or JSON; `-` reads stdin.", metavar="[FILE]"),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Set one value of the spec."),
]
ValidateOption = Annotated[
    bool,
    typer.Option("--validate-only", help="Check the spec and show what would run; create nothing."),
]
KeyOption = Annotated[
    str | None, typer.Option(help="Requests with the same key and spec create one study only.")
]
COLUMNS = ("id", "name", "state", "jobs", "tasks", "owner", "created")
WANTED = ("id", "name", "state", "jobs", "created")
"""The columns that a narrow terminal shows first."""
CELLS = ("base model", "task", "budget", "method", "trainable", "role", "state", "seeds", "why")
CHECKS = ("check", "base model", "of", "task", "budget", "state", "claims", "verdict", "why")


def create(
    context: typer.Context,
    file: FileArgument = None,
    settings: SetOption = None,
    idempotency_key: KeyOption = None,
    validate_only: ValidateOption = False,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a study and its jobs from a spec."""
    spec = read_spec(file, settings or ())
    with open_client(context) as client:
        if validate_only:
            print_preview(client.studies.preview(spec), output)
            return
        study = client.studies.create(spec, idempotency_key=idempotency_key)
        _print_or_wait(client, study, wait=wait, timeout=timeout, output=output)


def list_studies(
    context: typer.Context,
    job: Annotated[str | None, typer.Option(help="Only studies that contain this job.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Studies to show; 0 shows all.")] = 50,
    archived: ArchivedOption = Listed.EXCLUDE,
    output: OutputOption = Output.TABLE,
) -> None:
    """List studies, newest first."""
    with open_client(context) as client:
        listed = client.studies.list(
            job=job, page_size=min(limit or 200, 200), archived=archived_of(archived)
        )
        print_list(islice(listed, limit or None), COLUMNS, _row, output, wanted=WANTED)


def show(context: typer.Context, study: StudyArgument, output: OutputOption = Output.TABLE) -> None:
    """Show one study, cell by cell."""
    with open_client(context) as client:
        _print(client.studies.get(study), output)


def annotate(
    context: typer.Context,
    studies: StudiesArgument,
    name: NameOption = None,
    labels: LabelOption = None,
    removed: RemoveLabelOption = None,
    notes: NotesOption = None,
    archive: ArchiveOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change the name, labels and notes of studies, or archive them, whatever their state."""
    to = annotation_of(studies, name, labels, removed, notes, archive)
    with open_client(context) as client:
        changed = [
            client.studies.annotate(
                study, name=to.name, labels=to.labels, notes=to.notes, archived=to.archived
            )
            for study in studies
        ]
        print_list(changed, COLUMNS, _row, output, wanted=WANTED)


def list_jobs(
    context: typer.Context,
    study: StudyArgument,
    filter_text: Annotated[
        str | None,
        typer.Option("--filter", help="Filter, such as: state = failed OR method = lora"),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the jobs of a study, including those that create its base models."""
    with open_client(context) as client:
        print_jobs(client.studies.jobs(study, filter=filter_text), output)


def explain(
    context: typer.Context,
    study: StudyArgument,
    replay: Annotated[
        bool, typer.Option("--replay", help="Take each decision again, and say if it is the same.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a study with a question ran at each decision, and why."""
    with open_client(context) as client:
        taken = list(client.studies.decisions(study, replay=replay))
    if output is Output.TABLE:
        if not taken:
            say("This study has no question, so it has taken no decisions.")
        print_decisions(taken)
    else:
        print_list(taken, DECISIONS, decision_row, output)
    if any(one.replayed is False for one in taken):
        complain("error: not every decision is the same when it is taken again")
        raise typer.Exit(ExitCode.INVALID_FILE)


def wait(
    context: typer.Context,
    studies: StudiesArgument,
    timeout: TimeoutOption = None,
    any_of: AnyOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Wait for studies to end; exit with 0 if all their jobs succeeded, else with 1."""
    with open_client(context) as client:
        _wait_for(client, studies, timeout, output, any_of=any_of)


def cancel(
    context: typer.Context, study: StudyArgument, output: OutputOption = Output.TABLE
) -> None:
    """Cancel a study and those of its jobs that no other study uses."""
    with open_client(context) as client:
        _print(client.studies.cancel(study), output)


def extend(
    context: typer.Context,
    study: StudyArgument,
    file: FileArgument = None,
    settings: SetOption = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Total number of seeds.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Method to add. Repeatable.")] = None,
    budget: Annotated[list[int] | None, typer.Option(help="Budget to add. Repeatable.")] = None,
    validate_only: ValidateOption = False,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Add seeds, methods, budgets, tasks or base models; without options, re-run what failed."""
    members = read_spec(file, settings or ()) if file is not None or settings else {}
    options = {"seeds": seeds, "methods": method, "budgets": budget}
    extension = members | {name: value for name, value in options.items() if value}
    with open_client(context) as client:
        if validate_only:
            print_preview(client.studies.preview_extension(study, extension), output)
            return
        extended = client.studies.extend(study, extension)
        _print_or_wait(client, extended, wait=wait, timeout=timeout, output=output)


def clone(
    context: typer.Context,
    study: StudyArgument,
    name: Annotated[str, typer.Argument(help="Name of the new study.")],
    settings: SetOption = None,
    idempotency_key: KeyOption = None,
    validate_only: ValidateOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a study from another one, changed by `--set`; existing jobs are reused."""
    with open_client(context) as client:
        spec = client.studies.get(study).spec if settings else {}
        changes = changed_members(spec, settings or ()) | {"name": name}
        if validate_only:
            print_preview(client.studies.preview_clone(study, changes), output)
            return
        _print(client.studies.clone(study, changes, idempotency_key=idempotency_key), output)


def delete(
    context: typer.Context,
    studies: StudiesArgument,
    with_jobs: Annotated[
        bool,
        typer.Option(
            "--with-jobs", help="Also delete their jobs, unless something else needs them."
        ),
    ] = False,
    yes: DeleteOption = False,
) -> None:
    """Delete studies that are not running; their jobs stay unless --with-jobs.

    Only an admin of the project can do this. Jobs that a user submitted directly always stay.
    """
    one = f"the study {one_line(studies[0])}"
    what = one if len(studies) == 1 else f"{len(studies)} studies"
    confirm_deletion(f"{what} and their jobs" if with_jobs else what, yes=yes)
    with open_client(context) as client:
        for study in studies:
            gone = client.studies.delete(study, with_jobs=with_jobs)
            say(
                f"deleted study {one_line(gone.name)}: {gone.deleted_jobs} of its jobs deleted, "
                f"{gone.kept_jobs} kept"
            )


def share(
    context: typer.Context,
    study: StudyArgument,
    other: OtherArgument,
    output: OutputOption = Output.TABLE,
) -> None:
    """Share a study with another project of yours, which can then read it with its results."""
    with open_client(context) as client:
        shared = client.studies.share(study, other)
        lacking = [*_to_share_too(client, shared, other)]
    _print(shared, output)
    say(f"{shared.name} is shared with {', '.join(shared.shared_with)}, for reading only")
    if lacking:
        say(f"To repeat it, members of {other} need more: {' and '.join(lacking)}")


def _to_share_too(client: "Client", study: "StudyView", other: str) -> "Iterator[str]":
    """Yield the commands that share what a copy of the study would read."""
    for base in study.base_models:
        if other not in client.base_models.get(base.name).shared_with:
            yield f"`adaptlab base-models share {base.name} {other}`"
    for name in dict.fromkeys(_datasets(study)):
        if other not in client.datasets.get(name).shared_with:
            yield f"`adaptlab datasets share {name} {other}`"


def _datasets(study: "StudyView") -> "Iterator[str]":
    """Yield the names of the datasets in a study's spec."""
    tasks = cast("list[dict[str, object]]", study.spec.get("tasks") or [])
    yield from (str(task["dataset"]) for task in tasks if isinstance(task.get("dataset"), str))


def take_back(context: typer.Context, study: StudyArgument, other: OtherArgument) -> None:
    """Stop sharing a study with a project."""
    with open_client(context) as client:
        client.studies.take_back(study, other)
    say(f"took study {one_line(study)} back from {one_line(other)}")


def application() -> typer.Typer:
    """Return the commands of `adaptlab studies`."""
    return group(
        "studies",
        "Draft, create, list, extend, clone, share and cancel studies: many jobs for one question.",
        {
            "new": new_study.new,
            "create": create,
            "list": list_studies,
            "show": show,
            "annotate": annotate,
            "jobs": list_jobs,
            "explain": explain,
            "wait": wait,
            "cancel": cancel,
            "delete": delete,
            "extend": extend,
            "clone": clone,
            "share": share,
            "take-back": take_back,
            "link": study_links.link,
            "links": study_links.links,
            "unlink": study_links.unlink,
            "track": tracking.track,
            "bundle": bundle.save,
        },
    )


def _print_or_wait(
    client: "Client", study: "StudyView", *, wait: bool, timeout: float | None, output: Output
) -> None:
    if not wait:
        _print(study, output)
        return
    say_made(study)
    if output is Output.ID:
        _print(study, output)  # before waiting, in case the script is stopped meanwhile
    _wait_for(client, [study.id], timeout, output, printed=output is Output.ID)


def _wait_for(
    client: "Client",
    studies: "Sequence[Identity]",
    timeout: float | None,
    output: Output,
    *,
    any_of: bool = False,
    printed: bool = False,
) -> None:
    """Wait, print the ended studies, and exit with 1 if a job failed."""
    ended: list[StudyView] = []
    try:
        for study in studies_as_ended(client, studies, timeout):
            ended.append(study)
            if any_of:
                break
    finally:
        if ended and not printed:
            _print_ended(ended, output, alone=len(studies) == 1)
    if len(ended) == len(studies) == 1 and output is Output.TABLE:
        _print_finding(client, ended[0])
    leave_unless_succeeded(ended)


def _print_ended(ended: "Sequence[StudyView]", output: Output, *, alone: bool) -> None:
    if alone:
        _print(ended[0], output)
    elif output in (Output.TABLE, Output.CSV):
        print_rows(COLUMNS, map(_row, ended), output, WANTED)
    else:
        print_values(ended, output)


def _print_finding(client: "Client", study: "StudyView") -> None:
    """Print the answer to a study's question, or the sentences of `adaptlab compare`."""
    if study.question is not None:
        print(f"\n{one_line(study.question.sentence)}")
        return
    if not study.cells:
        return
    for table in client.studies.comparison(study.id).tables:
        found = "No scores." if table.comparison is None else table.comparison.sentence
        print(f"\n{one_line(f'{table.task} on {table.base_model}: {found}')}")


def say_made(study: "StudyView") -> None:
    """Print the name, id and job counts of a study to stderr."""
    say(f"{study.name} {study.id}: {counts(study)}")


def _print(study: "StudyView", output: Output) -> None:
    if output is Output.CSV:
        print_rows(CELLS, _cells(study), output)
        return
    if output is not Output.TABLE:
        print_value(study, output)
        return
    print_table(COLUMNS, [_row(study)], WANTED)
    if study.cells or not study.checks:
        print()
        print_table(CELLS, _cells(study, titled=True))
    if study.checks:
        print()
        rows = [
            [*place_of(c), c.job.state, len(c.reports) or None, c.verdict, c.job.reason]
            for c in study.checks
        ]
        print_table(CHECKS, rows)
    if study.question is not None:
        print()
        print_question(study.question)
    say_skipped(study.skipped)


def _cells(study: "StudyView", *, titled: bool = False) -> list[list[object]]:
    return [
        [c.base_model, c.task, c.budget, method_title(c.method) if titled else c.method,
         c.trainable_parameters,
         "over budget" if c.over_budget else c.role, c.state,
         " + ".join(str(len(job.seeds)) for job in c.jobs),
         "; ".join(job.reason for job in c.jobs if job.reason)]
        for c in study.cells
    ]  # fmt: skip


def _row(study: "StudySummary") -> list[object]:
    tasks = "; ".join(study.tasks)
    return [study.id, study.name, study.state, counts(study), tasks, study.owner, study.created_at]
