"""Output to a terminal: results on stdout, everything else on stderr.

Names, labels and messages come from other users. Their control characters are made visible instead
of being sent to the terminal, and their brackets are not markup.
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
# C0 without the line feed, delete, C1, and marks that reorder or hide the text around them.
_ACTIVE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


_QUIET = ContextVar("quiet", default=False)


class Output(StrEnum):
    """Formats of results: one for people, four for programs."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    ID = "id"


class RowOutput(StrEnum):
    """Formats of results without an id; a subset of `Output`."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


class Share(float):
    """A share of one, shown in per cent in tables and unchanged in files."""


def be_quiet(wanted: bool) -> None:
    """Switch messages other than errors off or on."""
    _QUIET.set(wanted)


def is_quiet() -> bool:
    """Return True if only errors are printed on stderr."""
    return _QUIET.get()


def is_terminal(stream: IO[str]) -> bool:
    """Return True if the stream is an open terminal."""
    return not stream.closed and stream.isatty()


def inert(text: object) -> str:
    r"""Return the text with control characters written as `\x1b` or `\u202e`."""
    return _ACTIVE.sub(_escaped, str(text))


def one_line(text: object) -> str:
    r"""Return the text like `inert`, with line feeds written as `\n`."""
    return inert(text).replace("\n", r"\n")


def json_text(value: object, *, indent: int | None = None) -> str:
    r"""Return the value as JSON, with control characters as `\u` escapes."""
    text = json.dumps(value, indent=indent, ensure_ascii=not _speaks_unicode(sys.stdout))
    return _ACTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _plain(value: "BaseModel") -> "JsonValue":
    return value.model_dump(mode="json")


def say(text: str) -> None:
    """Print a message on stderr, escaped, unless `--quiet` is set."""
    if not is_quiet():
        complain(text)


def complain(text: str) -> None:
    """Print an error or warning on stderr, escaped, even with `--quiet`."""
    print(inert(text), file=sys.stderr)


def print_values(values: "Iterable[BaseModel]", output: Output, identity: str = "id") -> None:
    """Print values as one JSON document, as JSON lines, or as ids."""
    if output is Output.JSON:
        print(json_text([_plain(value) for value in values], indent=2))
        return
    for value in values:
        print(
            one_line(getattr(value, identity)) if output is Output.ID else json_text(_plain(value))
        )


def print_value(value: "BaseModel", output: Output, identity: str = "id") -> None:
    """Print one value as JSON, a line of JSON, fields and values, or its id."""
    if output is Output.ID:
        print(one_line(getattr(value, identity)))
    elif output is Output.CSV:
        print_csv(("field", "value"), _fields(_plain(value)))
    else:
        print(json_text(_plain(value), indent=2 if output is Output.JSON else None))


def print_in_full(value: "BaseModel", output: Output, identity: str = "id") -> None:
    """Print one value like `print_value`, with JSON instead of a table."""
    print_value(value, Output.JSON if output is Output.TABLE else output, identity)


def print_list(
    values: "Iterable[V]",
    titles: Sequence[str],
    row_of: "Callable[[V], Sequence[object]]",
    output: Output,
    identity: str = "id",
    wanted: Sequence[str] = (),
) -> None:
    """Print values as rows of a table or CSV, or like `print_values`.

    In a narrow terminal, `wanted` titles come first.
    """
    if output in (Output.TABLE, Output.CSV):
        print_rows(titles, map(row_of, values), output, wanted)
    else:
        print_values(values, output, identity)


def print_one(
    value: "V",
    titles: Sequence[str],
    row_of: "Callable[[V], Sequence[object]]",
    output: Output,
    identity: str = "id",
) -> None:
    """Print one value as a row of a table or CSV, or like `print_value`."""
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
    """Print rows as a table or as CSV."""
    if output is Output.CSV:
        print_csv(titles, rows)
    else:
        print_table(titles, rows, wanted)


def print_table(
    titles: Sequence[str], rows: Iterable[Sequence[object]], wanted: Sequence[str] = ()
) -> None:
    """Print a table on stdout, wide in a pipe and fitted to a terminal.

    If the terminal is too narrow for all columns, `wanted` titles come first, and those left out
    are named on stderr.
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
    """Print rows as CSV without rounding, each as soon as it arrives."""
    from adaptlab.spreadsheet import harmless

    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(title.replace(" ", "_") for title in titles)
    for row in rows:
        lines.writerow(harmless(_exact(cell)) for cell in row)


def _has_limit(stream: IO[str]) -> bool:
    """Return True if the width is set, by a terminal or by `COLUMNS`."""
    return is_terminal(stream) or "COLUMNS" in os.environ


def console(stream: IO[str], *, width: int | None = None) -> "Console":
    """Return a console without markup, emoji codes and highlights."""
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


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _fields(value: "JsonValue", name: str = "") -> "Iterator[tuple[str, JsonValue]]":
    """Yield nested members under dotted names; lists stay whole."""
    if not isinstance(value, dict):
        yield name, value
        return
    for member, inner in value.items():
        yield from _fields(inner, f"{name}.{member}" if name else member)


def _shown(cell: object) -> str:
    """Return a cell as text for people."""
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
    """Return a cell for programs, without rounding."""
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
            # From an answer: text, numbers, lists and mappings of these.
            return json_text(cast("JsonValue", cell))
        case _:
            return str(cell)


def _speaks_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "utf-8").lower().replace("_", "-") in ("utf-8", "utf8", "utf-16")
