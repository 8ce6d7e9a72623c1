"""Places of lines in content that is too large to be read for one line."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from adaptlab.records.lines import Line, lines_of

BLOCK = 2**16
"""Bytes between two counts; content of 1 GiB has 16,384 of them."""


def feeds_before_blocks(pieces: Iterable[bytes]) -> Sequence[int]:
    """Return the number of line feeds before each block of the content.

    The pieces can be cut anywhere.
    """
    counts, feeds, room = array("Q", [0]), 0, BLOCK
    for piece in pieces:
        start = 0
        while start < len(piece):
            stop = min(start + room, len(piece))
            feeds += piece.count(b"\n", start, stop)
            room -= stop - start
            start = stop
            if not room:
                counts.append(feeds)
                room = BLOCK
    return counts


def line_at(feeds: Sequence[int], line: int, read: Callable[[int], Iterator[bytes]]) -> Line | None:
    """Return a line, counted from 1, or None if there are not so many.

    `read` returns the content from a byte on. It is read from the block where the line before ends.

    Raises:
        NotARecord: the line is longer than that of a record.
    """
    block = max(bisect_left(feeds, line - 1) - 1, 0)
    skipped = line - 1 - feeds[block]
    return next(islice(lines_of(read(block * BLOCK)), skipped, None), None)
