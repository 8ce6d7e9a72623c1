"""`adaptlab datasets`: list, show, upload, download, import-dictionaries."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.terminal import (
    Output,
    one_line,
    print_in_full,
    print_list,
    print_one,
    say,
)
from adaptlab_client.cli.session import OutputOption, open_client

if TYPE_CHECKING:
    from adaptlab_answers.models import DatasetView
    from adaptlab_client.machine.dictionaries import Imported

COLUMNS = ("name", "source", "triples", "longest", "digest", "from")
NameArgument = Annotated[
    str, typer.Argument(help="Name of a dataset.", autocompletion=suggestions.datasets)
]


def list_datasets(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """List the datasets on the server."""
    with open_client(context) as client:
        print_list(client.datasets.list(), COLUMNS, _row, output, "name")


def show(context: typer.Context, name: NameArgument, output: OutputOption = Output.TABLE) -> None:
    """Show one dataset."""
    with open_client(context) as client:
        print_in_full(client.datasets.get(name), output, "name")


def upload(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the dataset.")],
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help=(
                "One English, German and Spanish word triple per line: JSON, or tab-separated "
                "if the name ends in .tsv."
            ),
        ),
    ],
    output: OutputOption = Output.TABLE,
) -> None:
    """Upload words from a file; after an interruption, run it again to send the rest."""
    from adaptlab_client.cli.printing.progress import byte_bar  # loads rich, only needed here

    with open_client(context) as client, byte_bar(file.name) as report:
        entry = client.datasets.upload_file(name, file, report=report)
    print_one(entry, COLUMNS, _row, output, "name")


def download(
    context: typer.Context,
    name: NameArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="File to write.")],
) -> None:
    """Download and verify the words of a dataset, one JSON object per line."""
    from adaptlab_client.cli.printing.progress import byte_bar  # loads rich, only needed here

    with open_client(context) as client, byte_bar(name) as report:
        path = client.datasets.download(name, file, report=report)
    print(one_line(path))
    say(f"{path.stat().st_size} bytes, verified")


def import_dictionaries(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the dataset.")] = "dictionaries",
    german: Annotated[
        Path | None,
        typer.Option(
            help="German-English dictionary in Ding's format. Default: that of trans-de-en."
        ),
    ] = None,
    spanish: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Folder with Apertium's eng-spa transducers, or a file with the output of "
                "`lt-proc -b`. Default: that of apertium-eng-spa."
            )
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Join installed dictionaries into English-German-Spanish words and upload them."""
    words = _imported(german, spanish)
    for origin in words.origins:
        say(f"read {origin.package} {origin.version} ({origin.licence}), SHA-256 {origin.sha256}")
    counts = ", ".join(f"{part}s {count:,}" for part, count in words.joined.items())
    say(f"joined on word and part of speech: {counts}; kept {len(words.triples):,} words")
    with open_client(context) as client:
        sources = [asdict(origin) for origin in words.origins]
        entry = client.datasets.upload(name, words.triples, sources)
    print_one(entry, COLUMNS, _row, output, "name")


def application() -> typer.Typer:
    """Return the commands of `adaptlab datasets`."""
    return group(
        "datasets",
        "List, show, upload, download and import the words that tasks use.",
        {
            "list": list_datasets,
            "show": show,
            "upload": upload,
            "download": download,
            "import-dictionaries": import_dictionaries,
        },
    )


def _imported(german: Path | None, spanish: Path | None) -> "Imported":
    from adaptlab_client.machine.dictionaries import NoDictionary
    from adaptlab_client.machine.dictionaries import import_dictionaries as read

    try:
        return read(german, spanish)
    except (NoDictionary, UnicodeDecodeError) as error:
        raise UsageError(str(error)) from error


def _row(entry: "DatasetView") -> list[object]:
    origins = ", ".join(origin.package for origin in entry.sources)
    return [entry.name, entry.source, entry.triples, entry.longest, entry.digest[:12], origins]
