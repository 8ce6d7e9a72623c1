"""Layout of a table: the columns that fit a width, and their widths."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

GAP = 2
SHORT_ID = 8
Cells = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns shown, with their widths, and titles of those left out."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]
    left_out: tuple[str, ...]
    short_ids: bool = False


def layout(titles: Sequence[str], rows: Cells, width: int, wanted: Sequence[str] = ()) -> Layout:
    """Return the columns that fit, `wanted` titles before others.

    Lines break only between words. If whole ids do not fit, they are cut to their first characters.
    """
    whole = _fitting(titles, rows, width, wanted)
    if not whole.left_out:
        return whole
    return replace(_fitting(titles, with_short_ids(rows), width, wanted), short_ids=True)


def with_short_ids(rows: Cells) -> Cells:
    """Return the rows with ids cut to their first characters.

    All commands accept such short ids.
    """
    return [[cell[:SHORT_ID] if _is_id(cell) else cell for cell in row] for row in rows]


def _is_id(cell: str) -> bool:
    try:
        return str(UUID(cell)) == cell
    except ValueError:
        return False


def _fitting(titles: Sequence[str], rows: Cells, width: int, wanted: Sequence[str]) -> Layout:
    cells = [[title, *(row[place] for row in rows)] for place, title in enumerate(titles)]
    least = [max(_longest_word(cell) for cell in column) for column in cells]
    first = [titles.index(title) for title in wanted if title in titles]
    order = dict.fromkeys((*first, *range(len(titles))))
    fitting: list[int] = []
    for column in order:
        if not fitting or _total([least[other] for other in (*fitting, column)]) <= width:
            fitting.append(column)
    fitting.sort()
    most = [max(len(cell) for cell in cells[column]) for column in fitting]
    return Layout(
        columns=tuple(fitting),
        widths=_shared([least[column] for column in fitting], most, width),
        left_out=tuple(title for place, title in enumerate(titles) if place not in fitting),
    )


def _longest_word(cell: str) -> int:
    return max(map(len, cell.split()), default=0)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _shared(least: Sequence[int], most: Sequence[int], width: int) -> tuple[int, ...]:
    """Return the widths; spare width goes where least of it is needed."""
    widths = [*least]
    left = width - _total(widths)
    for place in sorted(range(len(widths)), key=lambda index: most[index] - least[index]):
        more = max(0, min(left, most[place] - least[place]))
        widths[place] += more
        left -= more
    return tuple(widths)
