"""`adaptlab sbatch-script`: print batch scripts for Slurm."""

import os
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.printing.terminal import say
from adaptlab_client.cli.session import open_client

if TYPE_CHECKING:
    from adaptlab_client.machine.slurm_scripts import SlurmResources

HOUR = 3600  # seconds
QUEUEING_HOURS = 48
MOST_HOURS = 336


def sbatch_script(
    context: typer.Context,
    submit: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC", help="Submit this spec and wait, instead of running a worker."
        ),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="JOB",
            help="Run only this job, with a token of its own.",
            autocompletion=suggestions.jobs,
        ),
    ] = None,
    token_folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help=(
                "Folder for the token of --job, visible to the compute nodes. Default: where "
                "`adaptlab login` stores its tokens."
            ),
        ),
    ] = None,
    token_hours: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_HOURS,
            help="Hours for which the token of --job is valid. Default: --time plus two days.",
        ),
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", help="Queue to take jobs from. Repeatable.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Run one job per array element, not as many as fit.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Address at which the compute nodes reach the server."),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the batch job.")] = "adaptlab",
    time: Annotated[str, typer.Option(help="Time limit of the batch job.")] = "04:00:00",
    partition: Annotated[str | None, typer.Option(help="Slurm partition.")] = None,
    account: Annotated[str | None, typer.Option(help="Slurm account.")] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs.")] = None,
    cpus: Annotated[int | None, typer.Option(min=1, help="Processors.")] = None,
    array: Annotated[
        str | None, typer.Option(metavar="RANGE", help="Array elements, such as 0-9%2.")
    ] = None,
    directive: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Another sbatch option, such as mem=16G. Repeatable."
        ),
    ] = None,
) -> None:
    """Print a Slurm batch script for a worker, or with --submit for a job to submit.

    The script contains no token. Log in with `adaptlab login` on the login node; the compute nodes
    need the same home directory. With --job, a token for that job alone is stored in a file that
    only you can read, and the script contains its path.
    """
    from adaptlab_client.machine.slurm_scripts import (
        BadDirective,
        SlurmResources,
        submitting,
        working,
    )

    _check(submit=submit, job=job, works=once or bool(queue), array=array)
    if job is None and (token_folder or token_hours):
        raise UsageError(
            "--token-folder and --token-hours apply only to the token of --job. Add --job or "
            "leave them out."
        )
    allocation = SlurmResources(
        name, time, partition, account, gpus, cpus, array, tuple(directive or ())
    )
    try:
        if job is not None:
            script = _on_job(context, allocation, job, server, token_folder, token_hours)
        elif submit is not None:
            script = submitting(allocation, submit, server)
        else:
            script = working(allocation, tuple(queue or ()), server, once=once)
    except BadDirective as error:
        raise UsageError(str(error)) from error
    print(script, end="")


def _check(*, submit: str | None, job: str | None, works: bool, array: str | None) -> None:
    """Refuse options that contradict each other."""
    if submit is not None and works:
        raise UsageError("--queue and --once apply only to workers. Leave them out with --submit.")
    if job is not None and (submit is not None or works or array is not None):
        raise UsageError(
            "--job runs a single job. Leave out --submit, --queue, --once and --array."
        )


def _on_job(
    context: typer.Context,
    allocation: "SlurmResources",
    job: str,
    server: str | None,
    folder: Path | None,
    hours: int | None,
) -> str:
    """Return the script for one job, and store a token for the job in a file."""
    from adaptlab_client.machine.slurm_scripts import working_on
    from adaptlab_client.transport import credentials

    hours = hours or min(ceil(allocation.seconds / HOUR) + QUEUEING_HOURS, MOST_HOURS)
    with open_client(context) as client:
        view = client.jobs.get(job)
        file = credentials.file_of_job(os.environ, str(view.id), folder)
        # Before the token is created, because a directive may be invalid.
        script = working_on(allocation, view.queue.name, server or client.url, file)
        name = allocation.name[:64]
        token = client.tokens.create_for_job(view.id, name, expires_in_hours=hours)
    credentials.keep_of_job(file, token.token)
    expiry = f"{token.expires_at:%Y-%m-%d %H:%M}"
    say(f"token {token.id} is valid for this job until {expiry} UTC: {file}")
    return script
