"""`adaptlab datasets`: list, show, import-dictionaries."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import UsageFault
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.session import OutputOption, open_client
from adaptlab_client.cli.terminal import Output, print_table, print_value, print_values, say

if TYPE_CHECKING:
    from adaptlab_client.answers import DatasetEntry
    from adaptlab_client.dictionaries import Imported

COLUMNS = ("name", "source", "triples", "longest", "digest", "from")
NameArgument = Annotated[str, typer.Argument(help="Name of a dataset.")]


def list_datasets(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """List the datasets on the server."""
    with open_client(context) as client:
        entries = [*client.datasets.list()]
    if output is not Output.TABLE:
        print_values(entries, output, "name")
        return
    print_table(COLUMNS, [_row(entry) for entry in entries])


def show(context: typer.Context, name: NameArgument, output: OutputOption = Output.TABLE) -> None:
    """Show one dataset in full."""
    with open_client(context) as client:
        found = client.datasets.get(name)
    print_value(found, Output.JSON if output is Output.TABLE else output, "name")


def import_dictionaries(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What the dataset is called.")] = "dictionaries",
    german: Annotated[
        Path | None,
        typer.Option(help="A German-English dictionary in Ding's format; else trans-de-en's."),
    ] = None,
    spanish: Annotated[
        Path | None,
        typer.Option(
            help="A folder with Apertium's eng-spa transducers, or a file of what `lt-proc -b` "
            "wrote; else apertium-eng-spa's."
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Join installed dictionaries into English-German-Spanish words, and upload these."""
    found = _imported(german, spanish)
    for origin in found.origins:
        say(f"read {origin.package} {origin.version} ({origin.licence}), SHA-256 {origin.sha256}")
    counts = ", ".join(f"{part}s {count:,}" for part, count in found.joined.items())
    say(f"joined on word and part of speech: {counts}; {len(found.triples):,} words are kept")
    with open_client(context) as client:
        sources = [asdict(origin) for origin in found.origins]
        entry = client.datasets.upload(name, found.triples, sources)
    if output is Output.TABLE:
        print_table(COLUMNS, [_row(entry)])
    else:
        print_value(entry, output, "name")


def application() -> typer.Typer:
    """The commands below `adaptlab datasets`."""
    return group(
        "Words for tasks to ask: list, show, import.",
        {
            "list": list_datasets,
            "show": show,
            "import-dictionaries": import_dictionaries,
        },
    )


def _imported(german: Path | None, spanish: Path | None) -> "Imported":
    from adaptlab_client.dictionaries import NoDictionary
    from adaptlab_client.dictionaries import import_dictionaries as read

    try:
        return read(german, spanish)
    except (NoDictionary, UnicodeDecodeError) as error:
        raise UsageFault(str(error)) from error


def _row(entry: "DatasetEntry") -> list[object]:
    origins = ", ".join(str(origin.get("package")) for origin in entry.sources)
    return [entry.name, entry.source, entry.triples, entry.longest, entry.digest[:12], origins]
