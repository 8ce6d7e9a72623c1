"""`adaptlab checkpoints`: list and download trained tensors."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import UsageFault
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.session import JobArgument, OutputOption, open_client
from adaptlab_client.cli.terminal import Output, one_line, print_list, say

if TYPE_CHECKING:
    from adaptlab_client.answers import Checkpoint


def list_checkpoints(
    context: typer.Context, job: JobArgument, output: OutputOption = Output.TABLE
) -> None:
    """List the checkpoints of a job."""
    with open_client(context) as client:
        found = client.jobs.checkpoints(job)
    print_list(
        found,
        ("id", "kind", "replicate", "seed", "parameters", "bytes", "SHA-256"),
        lambda c: (c.id, c.kind, c.replicate, c.seed, c.parameters, c.size, c.sha256),
        output,
    )


def download(
    context: typer.Context,
    checkpoints: Annotated[
        list[str] | None, typer.Argument(metavar="[CHECKPOINT…]", help="Their identities.")
    ] = None,
    job: Annotated[str | None, typer.Option(help="All checkpoints of this job.")] = None,
    to: Annotated[Path, typer.Option(help="A folder, or the file for a single one.")] = Path(),
) -> None:
    """Download safetensors files, verified; one that broke off goes on where it stopped."""
    with open_client(context) as client:
        wanted: list[Checkpoint | str] = [*(checkpoints or ())]
        if job is not None:
            wanted += client.jobs.checkpoints(job)
        if not wanted:
            raise UsageFault("Name checkpoints, or a --job that has some.")
        if len(wanted) > 1:
            to.mkdir(parents=True, exist_ok=True)
        for checkpoint in wanted:
            path = client.checkpoints.download(checkpoint, to)
            print(one_line(path))
            say(f"{path.stat().st_size} bytes, verified")


def application() -> typer.Typer:
    """The commands below `adaptlab checkpoints`."""
    return group(
        "Trained tensors, as safetensors files.",
        {
            "list": list_checkpoints,
            "download": download,
        },
    )
