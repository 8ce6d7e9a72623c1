"""`adaptlab checkpoints`: list, show, download, export, merge, push and import trained tensors."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.fetches import COLUMNS as FETCH_COLUMNS
from adaptlab_client.cli.printing.fetches import fetch_progress
from adaptlab_client.cli.printing.fetches import row_of as fetch_row
from adaptlab_client.cli.printing.terminal import (
    Output,
    one_line,
    print_in_full,
    print_list,
    print_one,
    say,
)
from adaptlab_client.cli.session import JobArgument, OutputOption, open_client
from adaptlab_client.cli.specs import read_choice
from adaptlab_client.cli.waiting import TimeoutOption, WaitOption, show_new_job

if TYPE_CHECKING:
    from adaptlab_answers.results import CheckpointView


class Format(StrEnum):
    """Formats of exported adapters."""

    PEFT = "peft"
    GGUF = "gguf"


class MergedForm(StrEnum):
    """What a checkpoint is merged into."""

    MODEL = "model"
    LORA = "lora"


CheckpointArgument = Annotated[
    int, typer.Argument(metavar="CHECKPOINT", help="Id of the checkpoint.")
]
MERGED = ("name", "change", "rounding")
COLUMNS = ("id", "kind", "replicate", "seed", "parameters", "bytes", "sha256")


def list_checkpoints(
    context: typer.Context, job: JobArgument, output: OutputOption = Output.TABLE
) -> None:
    """List the checkpoints of a job."""
    with open_client(context) as client:
        checkpoints = client.jobs.checkpoints(job)
    print_list(checkpoints, COLUMNS, _row, output)


def show(
    context: typer.Context,
    checkpoint: CheckpointArgument,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show one checkpoint, without its tensors."""
    with open_client(context) as client:
        print_in_full(client.checkpoints.get(checkpoint), output)


def download(
    context: typer.Context,
    checkpoints: Annotated[
        list[str] | None, typer.Argument(metavar="[CHECKPOINT…]", help="Ids of checkpoints.")
    ] = None,
    job: Annotated[str | None, typer.Option(help="Download all checkpoints of this job.")] = None,
    to: Annotated[
        Path, typer.Option(help="Folder to write to, or a file name for a single checkpoint.")
    ] = Path(),
) -> None:
    """Download and verify safetensors files; interrupted downloads resume."""
    from adaptlab_client.cli.printing.progress import byte_bar  # loads rich, only needed here

    with open_client(context) as client:
        wanted: list[CheckpointView | str] = [*(checkpoints or ())]
        if job is not None:
            wanted += client.jobs.checkpoints(job)
        if not wanted:
            raise UsageError("Name checkpoints, or a --job that has checkpoints.")
        if len(wanted) > 1 or (job is not None and not to.suffix):
            to.mkdir(parents=True, exist_ok=True)
        for checkpoint in wanted:
            with byte_bar("checkpoint") as report:
                path = client.checkpoints.download(checkpoint, to, report=report)
            print(one_line(path))
            say(f"{path.stat().st_size} bytes, verified")


def export(
    context: typer.Context,
    checkpoint: CheckpointArgument,
    to: Annotated[
        Path | None, typer.Option(help="Folder to write to. Default: checkpoint-ID-peft.")
    ] = None,
    format: Annotated[  # noqa: A002 - the name of the option
        Format, typer.Option(help="Format of the folder.")
    ] = Format.PEFT,
) -> None:
    """Write an adapter to a folder that PEFT loads, or a LoRA for llama.cpp."""
    folder = to or Path(f"checkpoint-{checkpoint}-{format.value}")
    with open_client(context) as client:
        if format is Format.GGUF:
            client.checkpoints.merge(checkpoint, folder, form="own", gguf=True)
            print(one_line(folder))
            return
        print(one_line(client.checkpoints.export(checkpoint, folder, format=format.value)))


def merge(
    context: typer.Context,
    checkpoint: CheckpointArgument,
    folder: Annotated[Path, typer.Argument(help="Folder to write to.")],
    form: Annotated[
        MergedForm, typer.Option("--as", help="The whole model, or the nearest LoRA.")
    ] = MergedForm.MODEL,
    rank: Annotated[int, typer.Option(min=1, max=4096, help="Rank of the LoRA.")] = 8,
    format: Annotated[  # noqa: A002 - the name of the option
        Format, typer.Option(help="Format of the LoRA.")
    ] = Format.PEFT,
    output: OutputOption = Output.TABLE,
) -> None:
    """Merge an adapter into its base, or write the nearest LoRA to any change of weights.

    Each changed tensor is listed with the relative error of the folder: of rounding to the base's
    dtype, or of the rank.
    """
    from adaptlab_client.cli.printing.progress import byte_bar  # loads rich, only needed here

    is_lora, is_gguf = form is MergedForm.LORA, format is Format.GGUF
    if is_gguf and not is_lora:
        raise UsageError("--format gguf writes an adapter: add --as lora.")
    with open_client(context) as client, byte_bar("base model") as report:
        found = client.checkpoints.merge(
            checkpoint, folder, form="lora" if is_lora else "merged", rank=rank, gguf=is_gguf,
            report=report,
        )  # fmt: skip
    print_list(found.sites, MERGED, lambda one: [one.name, one.change, one.rounding], output)
    if (worst := found.worst) is not None:
        say(f"largest relative error: {worst.rounding:.2g}, of {worst.name}")
    if found.lost:
        say(f"not in the LoRA, which changes matrices only: {', '.join(found.lost)}")
    say(f"wrote {one_line(folder)}")


def push(
    context: typer.Context,
    checkpoint: CheckpointArgument,
    repository: Annotated[
        str, typer.Argument(metavar="ORG/NAME", help="Repository on the server's hub.")
    ],
    public: Annotated[bool, typer.Option("--public", help="Let everyone see it.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is there.")] = False,
    timeout: TimeoutOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Push an adapter to the hub, with a model card that has the verdict.

    It needs your token (`adaptlab hub set-token`). The repository is private unless --public. A
    repeated push makes no second commit; `adaptlab hub list` has its state.
    """
    with open_client(context) as client:
        pushed = client.checkpoints.push(checkpoint, repository, public=public)
        if wait:
            with fetch_progress(repository) as report:
                pushed = client.hub.wait(pushed.id, timeout=timeout, on_progress=report)
        print_one(pushed, FETCH_COLUMNS, fetch_row, output)


def import_adapter(
    context: typer.Context,
    base_model: Annotated[
        str,
        typer.Argument(
            help="Name of the base model that the adapter was trained on.",
            autocompletion=suggestions.base_models,
        ),
    ],
    folder: Annotated[
        str,
        typer.Argument(
            metavar="ALIAS/PATH",
            help="PEFT folder below one of the server's model roots, or uploaded/NAME.",
        ),
    ],
    task: Annotated[
        str,
        typer.Option(
            help="Task to evaluate it on, as a name or YAML, '{name: add, k: 2}'.",
            autocompletion=suggestions.tasks,
        ),
    ],
    queue: Annotated[
        str | None, typer.Option(help="Queue of the workers that can read the folder.")
    ] = None,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Import an adapter that PEFT has saved in a folder on the server."""
    members: dict[str, object] = {} if queue is None else {"resources": {"queue": queue}}
    chosen = read_choice(task)
    with open_client(context) as client:
        job = client.checkpoints.import_folder(base_model, folder, chosen, **members)
        show_new_job(client, job, output, wait=wait, timeout=timeout)


def application() -> typer.Typer:
    """Return the commands of `adaptlab checkpoints`."""
    return group(
        "checkpoints",
        "List, show, download, export, merge, push and import trained tensors.",
        {
            "list": list_checkpoints,
            "show": show,
            "download": download,
            "export": export,
            "merge": merge,
            "push": push,
            "import": import_adapter,
        },
    )


def _row(checkpoint: "CheckpointView") -> list[object]:
    return [
        checkpoint.id,
        checkpoint.kind,
        checkpoint.replicate,
        checkpoint.seed,
        checkpoint.parameters,
        checkpoint.size,
        checkpoint.sha256,
    ]
