"""What is printed: results on stdout, everything else on stderr, and nothing that acts.

Names, labels and messages come from other people through the server. Control characters in them
are shown, not sent to the terminal, and brackets are no markup.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import IO, TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel, JsonValue
    from rich.console import Console

V = TypeVar("V", bound="BaseModel")

WIDTH_OF_A_PIPE = 200
# C0 without the line feed, delete, C1, and the marks that reorder or hide text around them.
_ACTIVE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


class Output(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    ID = "id"


def inert(text: object) -> str:
    r"""The text with every character that a terminal acts on written as `\x1b` or `\u202e`."""
    return _ACTIVE.sub(_escaped, str(text))


def one_line(text: object) -> str:
    r"""As `inert`, with line feeds written as `\n` too."""
    return inert(text).replace("\n", r"\n")


def json_text(value: "JsonValue", *, indent: int | None = None) -> str:
    r"""The value as JSON; what a terminal acts on is a `\u` escape, which is JSON too."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _ACTIVE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _plain(value: "BaseModel") -> "JsonValue":
    return value.model_dump(mode="json")


def say(text: str) -> None:
    """One message on stderr, made inert."""
    print(inert(text), file=sys.stderr)


def print_values(values: "Iterable[BaseModel]", output: Output, identity: str = "id") -> None:
    """Print values as JSON, JSON lines or identities; one document for all of them with JSON."""
    if output is Output.JSON:
        print(json_text([_plain(value) for value in values], indent=2))
        return
    for value in values:
        print(
            json_text(_plain(value))
            if output is Output.JSONL
            else one_line(getattr(value, identity))
        )


def print_value(value: "BaseModel", output: Output, identity: str = "id") -> None:
    """Print one value as JSON, as a line of JSON, or its identity."""
    if output is Output.ID:
        print(one_line(getattr(value, identity)))
    else:
        print(json_text(_plain(value), indent=2 if output is Output.JSON else None))


def print_in_full(value: "BaseModel", output: Output, identity: str = "id") -> None:
    """Print one value; it is in no table, so where one is asked for this is JSON."""
    print_value(value, Output.JSON if output is Output.TABLE else output, identity)


def print_list(
    values: "Iterable[V]",
    titles: Sequence[str],
    row_of: "Callable[[V], Sequence[object]]",
    output: Output,
    identity: str = "id",
) -> None:
    """Print values as the rows of a table, or as `print_values` does."""
    if output is Output.TABLE:
        print_table(titles, map(row_of, values))
    else:
        print_values(values, output, identity)


def print_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table on stdout; in a pipe it is wide and has no frame."""
    from rich.table import Table  # loaded for tables only
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line("" if cell is None else cell)) for cell in row))
    console(sys.stdout).print(table)


def console(stream: IO[str]) -> "Console":
    """A console on stdout or stderr that reads no markup, emoji codes or highlights."""
    from rich.console import Console

    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH_OF_A_PIPE
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=width)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
