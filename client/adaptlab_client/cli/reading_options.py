"""Options that say how a file of records is read, and what is changed in its labels."""

from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import UsageError

if TYPE_CHECKING:
    from adaptlab.records.file_reading import ReadingOptions

DelimiterOption = Annotated[
    str | None,
    typer.Option(help="Between columns of CSV: comma, semicolon, tab or bar. Default: found."),
]
EncodingOption = Annotated[
    str | None,
    typer.Option(help="Of a text file: utf-8, utf-16, cp1252 and others. Default: found."),
]
DropOption = Annotated[
    bool, typer.Option("--drop-empty", help="Leave records without a label out.")
]
MergeOption = Annotated[
    bool,
    typer.Option("--merge-labels", help="Write labels that differ in case or spaces in one way."),
]
LabelOption = Annotated[
    str | None,
    typer.Option(help="Field with the label or answer. Default: by names and values."),
]


def options_given(
    delimiter: str | None, encoding: str | None, label: str | None, *, drop: bool, merge: bool
) -> "ReadingOptions":
    """Return what was said about a file; raises `UsageError`."""
    from pydantic import ValidationError

    from adaptlab.records.file_reading import DELIMITERS, ENCODINGS, ReadingOptions

    given = {"delimiter": delimiter, "encoding": encoding and encoding.lower(), "label": label}
    try:
        return ReadingOptions.model_validate({**given, "drop_empty": drop, "merge_labels": merge})
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        known = {"delimiter": DELIMITERS, "encoding": ENCODINGS}.get(name, ())
        listed = f" Give one of {', '.join(known)}." if known else ""
        raise UsageError(f"--{name} cannot be {given.get(name)!r}.{listed}") from error


def words_of(options: "ReadingOptions") -> list[str]:
    """Return the options that were given, as words of a command."""
    said: list[str] = []
    for name, value in options.model_dump(exclude_defaults=True).items():
        option = f"--{name.replace('_', '-')}"
        said += [option] if value is True else [option, str(value)]
    return said
