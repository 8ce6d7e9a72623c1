"""`adaptlab theory`: run, show."""

from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import ExitCode
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.job_tables import print_job
from adaptlab_client.cli.printing.terminal import (
    Output,
    print_csv,
    print_table,
    print_value,
    print_values,
)
from adaptlab_client.cli.session import OutputOption, open_client
from adaptlab_client.cli.waiting import TimeoutOption, wait_for

if TYPE_CHECKING:
    from adaptlab_client import Client
    from adaptlab_client.transport.connection import Identity

COLUMNS = ("check", "claim", "measured", "tolerance", "verdict")
EXACT_COLUMNS = ("check", "claim", "measured", "bound", "tolerance", "verdict")
ChecksArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="CHECK", help="Checks to run. Default: all that are possible."),
]


def run(
    context: typer.Context,
    checks: ChecksArgument = None,
    base: Annotated[str | None, typer.Option(help="Base model to measure.")] = None,
    adaptation: Annotated[
        list[str] | None,
        typer.Option(help="Id of an adapt job to measure. Repeatable."),
    ] = None,
    replicates: Annotated[
        int | None,
        typer.Option(help="Number of seeds to measure of each adaptation. Default: all."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed for everything that is drawn at random.")] = 0,
    queue: Annotated[str | None, typer.Option(help="Queue of the workers that measure.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the job ends; exit with 1 if a claim fails.")
    ] = False,
    timeout: TimeoutOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Measure claims of the theory as a job."""
    spec: dict[str, object] = {"kind": "theory", "checks": checks or "all", "seed": seed}
    spec |= {} if base is None else {"base_model": base}
    spec |= {} if not adaptation else {"adaptation": _one_or_several(adaptation)}
    spec |= {} if replicates is None else {"replicates": replicates}
    spec |= {} if queue is None else {"resources": {"queue": queue}}
    with open_client(context) as client:
        job = client.jobs.submit(spec)
        if not wait:
            print_job(job, output)
            return
        if output is Output.ID:
            print_value(job, output)  # before waiting, in case the script is stopped meanwhile
        wait_for(client, [job.id], timeout, any_of=False, output=Output.ID, printed=True)
        _print(client, job.id, output, is_new=True)


def show(
    context: typer.Context,
    job: Annotated[str, typer.Argument(help="Id of a theory-check job.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the results of a job's theory checks."""
    with open_client(context) as client:
        _print(client, job, output)


def application() -> typer.Typer:
    """Return the commands of `adaptlab theory`."""
    return group(
        "theory",
        "Run and show theory checks.",
        {
            "run": run,
            "show": show,
        },
    )


def _one_or_several(jobs: list[str]) -> object:
    return jobs[0] if len(jobs) == 1 else jobs


def _print(client: "Client", job_id: "Identity", output: Output, *, is_new: bool = False) -> None:
    """Print the reports, and exit with 1 if a claim fails.

    `is_new` means that the id of the job has been printed, so `id` prints nothing more.
    """
    reports = client.jobs.theory(job_id)
    if output is Output.TABLE:
        rows = (
            (c.name, c.claim, c.measured, f"{c.bound} {c.tolerance:.3g}", c.verdict)
            for c in reports
        )
        print_table(COLUMNS, rows)
    elif output is Output.CSV:
        exact = ((c.name, c.claim, c.measured, c.bound, c.tolerance, c.verdict) for c in reports)
        print_csv(EXACT_COLUMNS, exact)
    elif output is not Output.ID or not is_new:
        print_values(reports, output, "name")
    if not all(check.holds for check in reports):
        raise typer.Exit(ExitCode.JOB_FAILED)
