"""What is printed: results on stdout, everything else on stderr, and nothing that acts.

Names, labels and messages come from other people through the server. Control characters in them
are shown, not sent to the terminal, and brackets are no markup.
"""

import csv
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from datetime import datetime
from enum import StrEnum
from typing import IO, TYPE_CHECKING, TextIO, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import BaseModel, JsonValue
    from rich.console import Console

V = TypeVar("V", bound="BaseModel")

WIDTH_OF_A_PIPE = 200
_NO_LIMIT = 10_000
# C0 without the line feed, delete, C1, and the marks that reorder or hide text around them.
_ACTIVE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


_QUIET = ContextVar("quiet", default=False)


class Output(StrEnum):
    """How results are printed: for people, or in one of four ways for programs."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    ID = "id"


class RowOutput(StrEnum):
    """How results are printed that have no identity; the words are those of `Output`."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


class Share(float):
    """A share of one, which a table shows in per cent and a file as it is."""


def be_quiet(wanted: bool) -> None:
    """Say from now on only what went wrong, or everything again."""
    _QUIET.set(wanted)


def is_quiet() -> bool:
    """Whether only what went wrong is said."""
    return _QUIET.get()


def is_terminal(stream: IO[str]) -> bool:
    """Whether a person looks at it; a stream that was closed is none."""
    return not stream.closed and stream.isatty()


def inert(text: object) -> str:
    r"""The text with every character that a terminal acts on written as `\x1b` or `\u202e`."""
    return _ACTIVE.sub(_escaped, str(text))


def one_line(text: object) -> str:
    r"""As `inert`, with line feeds written as `\n` too."""
    return inert(text).replace("\n", r"\n")


def json_text(value: object, *, indent: int | None = None) -> str:
    r"""The value as JSON; what a terminal acts on is a `\u` escape, which is JSON too."""
    text = json.dumps(value, indent=indent, ensure_ascii=not _speaks_unicode(sys.stdout))
    return _ACTIVE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _plain(value: "BaseModel") -> "JsonValue":
    return value.model_dump(mode="json")


def say(text: str) -> None:
    """Something to know on stderr, made inert; `--quiet` leaves it out."""
    if not is_quiet():
        complain(text)


def complain(text: str) -> None:
    """What went wrong, or may, on stderr, made inert; it is said whatever was asked for."""
    print(inert(text), file=sys.stderr)


def print_values(values: "Iterable[BaseModel]", output: Output, identity: str = "id") -> None:
    """Print values as JSON, JSON lines or identities; one document for all of them with JSON."""
    if output is Output.JSON:
        print(json_text([_plain(value) for value in values], indent=2))
        return
    for value in values:
        print(
            one_line(getattr(value, identity)) if output is Output.ID else json_text(_plain(value))
        )


def print_value(value: "BaseModel", output: Output, identity: str = "id") -> None:
    """Print one value as JSON, as a line of JSON, as fields and values, or its identity."""
    if output is Output.ID:
        print(one_line(getattr(value, identity)))
    elif output is Output.CSV:
        print_csv(("field", "value"), _fields(_plain(value)))
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
    """Print values as the rows of a table or of a file, or as `print_values` does."""
    if output in (Output.TABLE, Output.CSV):
        print_rows(titles, map(row_of, values), output)
    else:
        print_values(values, output, identity)


def print_one(
    value: "V",
    titles: Sequence[str],
    row_of: "Callable[[V], Sequence[object]]",
    output: Output,
    identity: str = "id",
) -> None:
    """Print one value as the only row of a table or of a file, or as `print_value` does."""
    if output in (Output.TABLE, Output.CSV):
        print_rows(titles, [row_of(value)], output)
    else:
        print_value(value, output, identity)


def print_rows(
    titles: Sequence[str],
    rows: Iterable[Sequence[object]],
    output: Output,
    wanted: Sequence[str] = (),
) -> None:
    """Print rows as a table, or else as comma-separated values."""
    if output is Output.CSV:
        print_csv(titles, rows)
    else:
        print_table(titles, rows, wanted)


def print_table(
    titles: Sequence[str], rows: Iterable[Sequence[object]], wanted: Sequence[str] = ()
) -> None:
    """Print a table on stdout; in a pipe it is wide and has no frame.

    On a terminal whose width does not hold all columns, those of `wanted` titles come first, and
    what is left out is said on stderr.
    """
    from rich.table import Table  # loaded for tables only
    from rich.text import Text

    from adaptlab_client.cli.printing.table_layout import layout, with_short_ids

    cells = [[one_line(_shown(cell)) for cell in row] for row in rows]
    screen = console(sys.stdout)
    places = layout(titles, cells, screen.width, wanted)
    if places.left_out and not _has_limit(sys.stdout):
        screen = console(sys.stdout, width=_NO_LIMIT)
        places = layout(titles, cells, _NO_LIMIT, wanted)
    if places.short_ids:
        cells = with_short_ids(cells)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, width in zip(places.columns, places.widths, strict=True):
        table.add_column(titles[column], overflow="fold", width=width)
    for row in cells:
        table.add_row(*(Text(row[column]) for column in places.columns))
    screen.print(table)
    if places.left_out:
        say(
            f"The terminal is too narrow for {', '.join(places.left_out)}. Widen it or use "
            "`--output csv`."
        )


def print_csv(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as comma-separated values, exactly, row by row as they come."""
    from adaptlab.spreadsheet import harmless

    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(title.replace(" ", "_") for title in titles)
    for row in rows:
        lines.writerow(harmless(_exact(cell)) for cell in row)


def _has_limit(stream: IO[str]) -> bool:
    """Return True if lines have a width that somebody chose: a terminal's, or `COLUMNS`."""
    return is_terminal(stream) or "COLUMNS" in os.environ


def console(stream: IO[str], *, width: int | None = None) -> "Console":
    """A console on stdout or stderr that reads no markup, emoji codes or highlights."""
    from rich.console import Console

    terminal = is_terminal(stream)
    if width is None and not _has_limit(stream):
        width = WIDTH_OF_A_PIPE
    return Console(
        file=stream,
        markup=False,
        highlight=False,
        emoji=False,
        width=width,
        force_terminal=terminal,  # a pipe gets no colour, whatever the environment forces
    )


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _fields(value: "JsonValue", name: str = "") -> "Iterator[tuple[str, JsonValue]]":
    """The members inside members under dotted names; lists stay whole."""
    if not isinstance(value, dict):
        yield name, value
        return
    for member, inner in value.items():
        yield from _fields(inner, f"{name}.{member}" if name else member)


def _shown(cell: object) -> str:
    """A cell as people read it."""
    match cell:
        case None:
            return ""
        case bool():
            return "yes" if cell else "no"
        case Share():
            return f"{100 * cell:.1f} %"
        case float():
            return f"{cell:.4g}"
        case datetime():
            return f"{cell:%Y-%m-%d %H:%M:%S}"
        case _:
            return str(_exact(cell))


def _exact(cell: object) -> "JsonValue":
    """A cell as programs read it: nothing is rounded."""
    match cell:
        case None | bool():
            return {None: "", True: "true", False: "false"}[cell]
        case Share():
            return float(cell)
        case str() | int() | float():
            return cell
        case datetime():
            return cell.isoformat()
        case dict() | list() | tuple():
            # What the server answered: text, numbers, lists and mappings of these.
            return json_text(cast("JsonValue", cell))
        case _:
            return str(cell)


def _speaks_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "utf-8").lower().replace("_", "-") in ("utf-8", "utf8", "utf-16")
