"""`adaptlab sbatch-script`: prints scripts for Slurm."""

from typing import Annotated

import typer

from adaptlab_client.cli.exits import UsageFault


def sbatch_script(
    submit: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="Submit this spec and wait, instead of working."),
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", help="A queue to work for; repeat it.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="One job an element, not all that fit.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Address of the server, as the compute nodes reach it."),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the batch job.")] = "adaptlab",
    time: Annotated[str, typer.Option(help="How long it may run.")] = "04:00:00",
    partition: Annotated[str | None, typer.Option(help="Slurm's partition.")] = None,
    account: Annotated[str | None, typer.Option(help="Slurm's account.")] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs.")] = None,
    cpus: Annotated[int | None, typer.Option(min=1, help="Processors.")] = None,
    array: Annotated[
        str | None, typer.Option(metavar="RANGE", help="Elements of an array, such as 0-9%2.")
    ] = None,
    directive: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Another option of sbatch, such as mem=16G."),
    ] = None,
) -> None:
    """Print a script for Slurm's sbatch: a worker, or with --submit one that submits and waits.

    It holds no token: sign in with `adaptlab login` on the login node, whose home directory the
    compute nodes see.
    """
    from adaptlab_client.slurm_scripts import Allocation, BadDirective, submitting, working

    if submit is not None and (once or queue):
        raise UsageFault("--queue and --once are for workers: leave them out with --submit.")
    allocation = Allocation(
        name, time, partition, account, gpus, cpus, array, tuple(directive or ())
    )
    try:
        if submit is not None:
            print(submitting(allocation, submit, server), end="")
        else:
            print(working(allocation, tuple(queue or ()), server, once=once), end="")
    except BadDirective as error:
        raise UsageFault(str(error)) from error
