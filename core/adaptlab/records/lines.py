"""Lines of a text file, cut from pieces of any size."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from adaptlab.records.problems import NotARecord
from adaptlab.records.record import LONGEST_LINE, MOST_RECORDS

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF8_ADVICE = "Save the file as UTF-8."
NUL_ADVICE = "Remove it. If the file is UTF-16, save it as UTF-8."


class Line(NamedTuple):
    """A line without its line feed.

    Attributes:
        number: its number, from 1.
        content: its bytes.
        is_ended: False for the last line if no line feed follows it.
    """

    number: int
    content: bytes
    is_ended: bool = True

    @property
    def is_blank(self) -> bool:
        """True if the line has spaces only."""
        return not self.content.strip()


def lines_of(pieces: Iterable[bytes]) -> Iterator[Line]:
    """Yield the lines that end with a line feed, and the rest if there is one.

    Raises:
        NotARecord: a line has more than `LONGEST_LINE` bytes; no piece behind it is read.
    """
    number, rest = 1, bytearray()
    for piece in pieces:
        *ended, last = piece.split(b"\n")
        if rest and ended:
            ended[0] = bytes(rest + ended[0])
            rest.clear()
        for content in ended:
            if len(content) > LONGEST_LINE:
                raise _too_long(number)
            yield Line(number, content)
            number += 1
        rest += last
        if len(rest) > LONGEST_LINE:
            raise _too_long(number)
    if rest:
        yield Line(number, bytes(rest), is_ended=False)


def without_mark(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines, the first one without a byte order mark."""
    following = iter(lines)
    for first in following:
        yield first._replace(content=first.content.removeprefix(BYTE_ORDER_MARK))
        yield from following


def _too_long(number: int) -> NotARecord:
    return NotARecord(
        number,
        "line_too_long",
        f"the line has more than {LONGEST_LINE:,} bytes",
        "Shorten its values, and end each line with a line feed.",
        is_final=True,
    )


class BlankLines:
    """Counts blank lines, which are ignored up to a limit."""

    def __init__(self) -> None:
        self._count = 0

    def skip(self, line: Line) -> bool:
        """Return True if the line is blank; raise `NotARecord` after too many."""
        if not line.is_blank:
            return False
        self._count += 1
        if self._count > MOST_RECORDS:
            raise NotARecord(
                line.number,
                "too_many_blank_lines",
                f"more than {MOST_RECORDS:,} lines are blank",
                "Remove them.",
                is_final=True,
            )
        return True


def text_of(line: Line) -> str:
    """Return the text of a line.

    Raises:
        NotARecord: it is not UTF-8 or has a NUL byte.
    """
    if b"\0" in line.content:
        raise NotARecord(
            line.number,
            "nul_character",
            "there is a NUL byte",
            NUL_ADVICE,
            column=line.content.index(b"\0") + 1,
        )
    try:
        return line.content.decode()
    except UnicodeDecodeError as error:
        raise NotARecord(
            line.number,
            "not_utf8",
            f"the byte 0x{line.content[error.start]:02x} is not UTF-8",
            UTF8_ADVICE,
            column=len(line.content[: error.start].decode()) + 1,
        ) from error
