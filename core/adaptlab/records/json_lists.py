"""Objects of one JSON list, decoded as a file is read piece by piece."""

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from adaptlab.records.lines import BYTE_ORDER_MARK, NUL_ADVICE, UTF8_ADVICE
from adaptlab.records.problems import NotARecord
from adaptlab.records.record import LONGEST_LINE

_SPACES = re.compile(r"[ \t\r\n]*")
_LONGEST_TOKEN = 16
"""Characters before the end of a text where it may have been cut inside of a token."""
_ADVICE = "Give one list of JSON objects, or one object per line without a list."


def begins_with_list(pieces: Iterable[bytes]) -> tuple[bool, Iterator[bytes]]:
    """Return True if a file begins with a list, and all of its pieces.

    A byte order mark and spaces before it do not count.
    """
    begin, rest = b"", iter(pieces)
    for piece in rest:
        begin += piece
        shown = begin.removeprefix(BYTE_ORDER_MARK).lstrip(b" \t\r\n")
        is_mark = BYTE_ORDER_MARK.startswith(begin)  # or a part of one
        if (shown and not is_mark) or len(begin) > LONGEST_LINE:
            return shown.startswith(b"["), chain((begin,), rest)
    return False, iter((begin,))


def _not_space(text: str, place: int) -> int:
    found = _SPACES.match(text, place)
    return found.end() if found else place


class ObjectsOfList:
    """The objects of a list, each with the line at which it begins.

    Nothing can be read behind an error.
    """

    def __init__(self, pieces: Iterable[bytes], decoder: json.JSONDecoder) -> None:
        self._pieces, self._decoder = iter(pieces), decoder
        self._bytes = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._place, self._line = "", 0, 1
        self._is_whole = False

    def __iter__(self) -> Iterator[tuple[int, object]]:
        """Yield lines and objects; raise `NotARecord` for another list."""
        self._expect("[")
        if self._next() != "]":
            yield self._object()
            while self._next() == ",":
                self._expect(",")
                yield self._object()
        self._expect("]")
        if self._next():
            raise self.refused("not_json", "there is text behind the end of the list", _ADVICE)

    def refused(self, code: str, what: str, advice: str) -> NotARecord:
        """Return the problem of what is read now."""
        return NotARecord(self._line, code, what, advice, is_final=True)

    def _expect(self, mark: str) -> None:
        found = self._next()
        if found != mark:
            what = (
                f"the list has {found!r} instead of {mark!r}" if found else "the list is not closed"
            )
            raise self.refused("not_json", what, _ADVICE)
        self._advance(self._place + 1)

    def _next(self) -> str:
        """Return the next character that is no space, empty at the end."""
        while True:
            self._advance(_not_space(self._text, self._place))
            if self._place < len(self._text) or self._is_whole:
                return self._text[self._place : self._place + 1]
            self._read()

    def _object(self) -> tuple[int, object]:
        if self._next() != "{":
            what = "a member of the list is not an object"
            raise self.refused("not_an_object", what, _ADVICE)
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._place)
            except json.JSONDecodeError as error:
                self._read_more_of(error)
            except RecursionError:
                what = "the object is nested too deeply"
                raise self.refused("not_json", what, _ADVICE) from None
            else:
                self._check_length(end - self._place)
                line = self._line
                self._advance(end)
                return line, value

    def _read_more_of(self, error: json.JSONDecodeError) -> None:
        """Read more of an object that was cut; raise for one that is not JSON."""
        begun = len(self._text) - self._place
        is_cut = error.msg.startswith("Unterminated string") or (
            error.pos >= len(self._text) - _LONGEST_TOKEN
        )
        if self._is_whole or not is_cut:
            self._advance(error.pos)
            raise self.refused("not_json", f"the list is not JSON ({error.msg})", _ADVICE)
        self._check_length(begun)
        while len(self._text) - self._place < 2 * begun and not self._is_whole:
            self._read()

    def _check_length(self, length: int) -> None:
        if length > LONGEST_LINE:
            what = f"the object that begins here has more than {LONGEST_LINE:,} characters"
            raise self.refused("line_too_long", what, "Shorten its values.")

    def _advance(self, place: int) -> None:
        self._line += self._text.count("\n", self._place, place)
        self._place = place

    def _read(self) -> None:
        """Append the next piece to what is not yet passed."""
        piece = next(self._pieces, None)
        self._is_whole = piece is None
        try:
            text = self._bytes.decode(piece or b"", final=self._is_whole)
        except UnicodeDecodeError as error:
            what = f"the byte 0x{error.object[error.start]:02x} is not UTF-8"
            raise self.refused("not_utf8", what, UTF8_ADVICE) from error
        if "\0" in text:
            raise self.refused("nul_character", "there is a NUL byte", NUL_ADVICE)
        self._text, self._place = self._text[self._place :] + text, 0
