"""`adaptlab datasets`: list, show, inspect, upload, add, download and more."""

import json
import shlex
from contextlib import ExitStack
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.terminal import (
    Output,
    RowOutput,
    one_line,
    print_in_full,
    print_list,
    print_one,
    print_value,
    say,
)
from adaptlab_client.cli.reading_options import (
    DelimiterOption,
    DropOption,
    EncodingOption,
    LabelOption,
    MergeOption,
    options_given,
    words_of,
)
from adaptlab_client.cli.session import OutputOption, open_client

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adaptlab.inspection.file_inspection import Inspection
    from adaptlab.records.file_forms import FileForm
    from adaptlab_answers.models import DatasetView
    from adaptlab_client.client import Client
    from adaptlab_client.machine.dictionaries import Imported

COLUMNS = ("name", "kind", "count", "fields", "digest", "from")
MOST_OF_FIELDS = 30
"""Characters of the names of fields in a table."""

NameArgument = Annotated[
    str, typer.Argument(help="Name of a dataset.", autocompletion=suggestions.datasets)
]
OtherArgument = Annotated[str, typer.Argument(metavar="PROJECT", help="Name of the project.")]


def file_or_hub(text: str) -> Path:
    """Return a file that exists, or a name on the hub, which is no path but passes as one."""
    path = Path(text)
    if not is_of_hub(text) and not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise typer.BadParameter(f"File {text!r} {what}.")
    return path


FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE|hub:ORG/NAME[@REVISION]",
        parser=file_or_hub,
        help="CSV, TSV, JSON, JSONL, Parquet or XLSX, or a dataset on the hub.",
    ),
]


class FormName(StrEnum):
    """Forms of files with records."""

    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    XLSX = "xlsx"


class KindName(StrEnum):
    """Kinds of datasets."""

    WORDS = "words"
    RECORDS = "records"


FormatOption = Annotated[
    FormName | None,
    typer.Option("--format", help="Form of the file. Default: by the end of its name."),
]
ConfigOption = Annotated[
    str | None, typer.Option(help="Configuration of a dataset on the hub. Default: its own.")
]
SplitOption = Annotated[
    str | None, typer.Option(help="Split of a dataset on the hub. Default: train.")
]


def list_datasets(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """List the datasets on the server."""
    with open_client(context) as client:
        print_list(client.datasets.list(), COLUMNS, _row, output, "name")


def show(context: typer.Context, name: NameArgument, output: OutputOption = Output.TABLE) -> None:
    """Show one dataset."""
    with open_client(context) as client:
        print_in_full(client.datasets.get(name), output, "name")


def inspect(
    context: typer.Context,
    file: FileArgument,
    config: ConfigOption = None,
    split: SplitOption = None,
    form: FormatOption = None,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    label: LabelOption = None,
    drop_empty: DropOption = False,
    merge_labels: MergeOption = False,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            exists=True, help="A base model's tokenizer.json, or its folder: counts tokens."
        ),
    ] = None,
    output: Annotated[
        RowOutput, typer.Option("--output", "-o", help="Format of the result.")
    ] = RowOutput.TABLE,
) -> None:
    """Show what is in a file of records, and the task that fits, without a server.

    Of a dataset on the hub, a server reads the first records of the split.
    """
    from adaptlab.inspection.file_inspection import inspected
    from adaptlab.inspection.token_counts import BadTokenizer
    from adaptlab.records.file_forms import dataset_name

    options = options_given(delimiter, encoding, label, drop=drop_empty, merge=merge_labels)
    if is_of_hub(str(file)):
        if tokenizer or form or options.model_dump(exclude_defaults=True):
            raise UsageError("A dataset of the hub has only the options --config and --split.")
        _inspect_hub(context, of_split(str(file), config, split), output)
        return
    try:
        report = inspected(file, form_given(file, form), tokenizer, options)
    except BadTokenizer as error:
        raise UsageError(str(error)) from error
    _print_inspected(report, output)
    if output is RowOutput.TABLE:
        command = ["adaptlab", "datasets", "upload", dataset_name(file), str(file)]
        say(f"Next: {shlex.join([*command, *_mending(report), *words_of(options)])}")


def _inspect_hub(context: typer.Context, source: str, output: RowOutput) -> None:
    """Print what a server has read of the first records of a split."""
    from adaptlab.inspection.file_inspection import Inspection
    from adaptlab_client.cli.printing.fetches import fetch_progress, plan_of_dataset
    from adaptlab_client.resources.hub import name_for

    with open_client(context) as client, fetch_progress(source) as report:
        fetch = client.hub.plan(source, kind="dataset", on_progress=report)
    plan = fetch.dataset_plan
    assert plan is not None  # of a dataset's fetch that has succeeded
    if output is RowOutput.TABLE:
        for line in plan_of_dataset(fetch, plan):
            say(line)
    if plan.inspection is not None:
        _print_inspected(Inspection.model_validate_json(json.dumps(plan.inspection)), output)
    if output is RowOutput.TABLE:
        say(f"Next: {shlex.join(['adaptlab', 'datasets', 'add', name_for(source), source])}")


def _print_inspected(report: "Inspection", output: RowOutput) -> None:
    from adaptlab_client.cli.printing.inspection_report import print_fields, print_inspection

    if output is RowOutput.CSV:
        print_fields(report)
    elif output is not RowOutput.TABLE:
        print_value(report, Output(output), "digest")
    else:
        print_inspection(report)


def upload(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the dataset.")],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            exists=True,
            help="CSV, TSV, JSON, JSONL, Parquet or XLSX; a folder of images or an .npz.",
        ),
    ],
    kind: Annotated[
        KindName | None,
        typer.Option(
            help=(
                "records, or words: a word in English, German and Spanish per line. Default: by "
                "the first line."
            )
        ),
    ] = None,
    form: FormatOption = None,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    label: LabelOption = None,
    drop_empty: DropOption = False,
    merge_labels: MergeOption = False,
    size: Annotated[
        str | None, typer.Option(help="Crop and resize all images, such as to 32 or 32x48.")
    ] = None,
    grey: Annotated[bool, typer.Option("--grey", help="Convert images to greyscale.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Upload a file; after an interruption, run it again to send the rest.

    A file of words has a JSON list per line, or tabs between the three words if its name ends in
    .tsv. Records of any form are checked here, and sent as JSON lines. A folder of images has a
    folder for each label, perhaps in folders for splits; an .npz has images and labels.
    """
    from adaptlab_client.cli.printing.progress import byte_bar  # loads rich, only needed here
    from adaptlab_client.machine.image_files import is_of_images
    from adaptlab_client.machine.record_files import canonical, kind_of, whole_reading_of

    if is_of_images(file):
        _upload_images(context, name, file, size, grey=grey, output=output)
        return
    if size is not None or grey:
        raise UsageError("--size and --grey are for a folder of images or an .npz.")
    chosen = kind or KindName(kind_of(file, form.value if form else None))
    if kind is None:
        say(f"{file.name} is read as {chosen}; --kind chooses")
    options = options_given(delimiter, encoding, label, drop=drop_empty, merge=merge_labels)
    with ExitStack() as stack:
        content, reading = file, None
        if chosen is KindName.RECORDS:
            reading = whole_reading_of(file, form_given(file, form), options)
            content = stack.enter_context(canonical(file, reading))
        client = stack.enter_context(open_client(context))
        report = stack.enter_context(byte_bar(file.name))
        entry = client.datasets.upload_file(
            name, content, kind=chosen.value, report=report, reading=reading
        )
    print_one(entry, COLUMNS, _row, output, "name")


def add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the dataset.")],
    file: Annotated[
        str,
        typer.Argument(
            metavar="ROOT/PATH|hub:ORG/NAME[@REVISION]",
            help="A file of records below a dataset root of the server, or a dataset on the hub.",
        ),
    ],
    config: ConfigOption = None,
    split: SplitOption = None,
    form: FormatOption = None,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    label: LabelOption = None,
    drop_empty: DropOption = False,
    merge_labels: MergeOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Add a file below a dataset root of the server, or a dataset on the hub.

    The server copies the records: the dataset stays as it is if the file changes or goes. Of the
    hub it fetches one split, by default train.
    """
    options = options_given(delimiter, encoding, label, drop=drop_empty, merge=merge_labels)
    with open_client(context) as client:
        if is_of_hub(file):
            if form is not None or options.model_dump(exclude_defaults=True):
                raise UsageError("A dataset of the hub has only the options --config and --split.")
            entry = fetched_dataset(client, name, of_split(file, config, split))
            print_one(entry, COLUMNS, _row, output, "name")
            return
        if config is not None or split is not None:
            raise UsageError("--config and --split are for a dataset on the hub: hub:ORG/NAME.")
        entry = client.datasets.add(name, file, form=form.value if form else None, options=options)
    print_one(entry, COLUMNS, _row, output, "name")


class GenreName(StrEnum):
    """Genres of neutral texts."""

    PROSE = "prose"
    CODE = "code"


def add_neutral(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the dataset.")],
    genre: Annotated[
        GenreName, typer.Option(help="The manual of Python, or its standard library.")
    ] = GenreName.PROSE,
    passages: Annotated[int, typer.Option(min=10, max=100_000, help="Passages.")] = 400,
    longest: Annotated[
        int, typer.Option(min=40, max=4000, help="Most bytes of a passage; lines stay whole.")
    ] = 400,
    output: OutputOption = Output.TABLE,
) -> None:
    """Add neutral texts that Python ships, for the task neutral_text.

    Passages have the fields text, chapter, genre and split. They are read on this machine.
    """
    from adaptlab_client.machine.neutral_texts import neutral_records, source

    records = neutral_records(genre.value, passages, longest)
    with open_client(context) as client:
        entry = client.datasets.upload_records(name, records, [source()])
    print_one(entry, COLUMNS, _row, output, "name")


def is_of_hub(source: str) -> bool:
    """Return True for the name of a dataset on the hub."""
    return source.startswith("hub:")


def of_split(source: str, config: str | None, split: str | None) -> str:
    """Return the name of a split of a dataset on the hub; raises `UsageError`."""
    from adaptlab.errors import InvalidSpec
    from adaptlab.weights.hub_name import HubDatasetName

    try:
        name = HubDatasetName.read(source, "/source")
    except InvalidSpec as error:
        raise UsageError(error.problems[0].detail) from error
    parts = {"config": config or name.config, "split": split or name.split}
    return str(name.model_copy(update=parts))


def fetched_dataset(client: "Client", name: str, source: str) -> "DatasetView":
    """Have a dataset of the hub fetched, and return it."""
    from adaptlab_client.cli.printing.fetches import fetch_progress

    fetch = client.hub.fetch_dataset(name, source)
    with fetch_progress(source) as report:
        client.hub.wait(fetch.id, on_progress=report)
    return client.datasets.get(name)


def _upload_images(
    context: typer.Context, name: str, path: Path, size: str | None, *, grey: bool, output: Output
) -> None:
    from adaptlab_client.cli.printing.progress import byte_bar  # loads rich, only needed here
    from adaptlab_client.machine.image_files import NoImages, Size, image_records

    try:
        wanted = Size.read(size) if size else None
        with (
            image_records(path, wanted, grey=grey) as records,
            open_client(context) as client,
            byte_bar(path.name) as report,
        ):
            entry = client.datasets.upload_file(name, records, kind="records", report=report)
    except NoImages as error:
        raise UsageError(str(error)) from error
    print_one(entry, COLUMNS, _row, output, "name")


def download(
    context: typer.Context,
    name: NameArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="File to write.")],
) -> None:
    """Download and verify the content of a dataset, one JSON object per line."""
    from adaptlab_client.cli.printing.progress import byte_bar  # loads rich, only needed here

    with open_client(context) as client, byte_bar(name) as report:
        path = client.datasets.download(name, file, report=report)
    print(one_line(path))
    say(f"{path.stat().st_size} bytes, verified")


def delete(context: typer.Context, name: NameArgument) -> None:
    """Delete a dataset that no base model, study or unfinished job needs.

    What ended jobs have recorded stays. A study needs its datasets until it is cancelled.
    """
    with open_client(context) as client:
        client.datasets.delete(name)
    say(f"deleted dataset {one_line(name)}")


def share(
    context: typer.Context,
    name: NameArgument,
    other: OtherArgument,
    output: OutputOption = Output.TABLE,
) -> None:
    """Share a dataset with another project of yours, which can then use it."""
    with open_client(context) as client:
        print_one(client.datasets.share(name, other), COLUMNS, _row, output, "name")


def take_back(context: typer.Context, name: NameArgument, other: OtherArgument) -> None:
    """Stop sharing a dataset with a project that does not need it."""
    with open_client(context) as client:
        client.datasets.take_back(name, other)
    say(f"took dataset {one_line(name)} back from {one_line(other)}")


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
        "Inspect, upload, add, list, show, download and delete what tasks read.",
        {
            "list": list_datasets,
            "show": show,
            "inspect": inspect,
            "upload": upload,
            "add": add,
            "add-neutral": add_neutral,
            "download": download,
            "delete": delete,
            "share": share,
            "take-back": take_back,
            "import-dictionaries": import_dictionaries,
        },
    )


def form_given(file: Path, wanted: FormName | None) -> "FileForm":
    """Return the form of a file; raises `UsageError`."""
    from adaptlab.records.file_forms import UnknownForm, form_of

    try:
        return form_of(file, wanted.value if wanted else None)
    except UnknownForm as error:
        raise UsageError(str(error)) from error


def _mending(report: "Inspection") -> list[str]:
    """Return the options that mend what a file has."""
    from adaptlab.records.file_reading import MENDING

    found = dict.fromkeys(one.option for one in report.findings)
    return [f"--{option.replace('_', '-')}" for option in found if option in MENDING]


def _imported(german: Path | None, spanish: Path | None) -> "Imported":
    from adaptlab_client.machine.dictionaries import NoDictionary
    from adaptlab_client.machine.dictionaries import import_dictionaries as read

    try:
        return read(german, spanish)
    except (NoDictionary, UnicodeDecodeError) as error:
        raise UsageError(str(error)) from error


def _row(entry: "DatasetView") -> list[object]:
    origins = ", ".join(origin.package for origin in entry.sources)
    if entry.origin is not None:
        origins = f"{entry.origin.repository}@{entry.origin.commit[:12]}"
    count = entry.records if entry.triples is None else entry.triples
    return [
        entry.name,
        entry.kind,
        count,
        _some(field.name for field in entry.fields or ()),
        entry.digest[:12],
        origins or entry.source,
    ]


def _some(names: "Iterable[str]") -> str:
    """Return the names of fields as far as a table has room for them."""
    text = ", ".join(names)
    return text if len(text) <= MOST_OF_FIELDS else f"{text[: MOST_OF_FIELDS - 1]}…"
