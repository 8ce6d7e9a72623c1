"""The encoding of a text file, found from all of its bytes."""

import codecs
import re
import unicodedata
from collections.abc import Iterable, Iterator

from adaptlab.records.file_reading import Encoding
from adaptlab.records.problems import NotARecord

SAMPLE_BYTES = 2**20
"""Bytes from the beginning of a file by which delimiters are found."""
_MARKS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_PLACES = re.compile(rb"[^\r\n]{0,30}[\x80-\xff][^\r\n]{0,30}")
_MOST_PLACES = 2000
_NOT_OF_WINDOWS = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_MOST_HIGH = 0.3
"""Share of letters beyond ASCII above which a text is of another alphabet than Latin."""
_RARE = frozenset("ðþýÐÞÝŠšŽžŒŸƒˆ‰†‡˜¹²³¼½¾¤¦¯¶¸ª¬")
"""Signs of Windows-1252 that are frequent only where another encoding is read as it."""
_MOST_RARE = 0.2
_MOST_FOREIGN = 0.3
"""Share of words without a letter of ASCII, among those with another: Latin ones have both."""


class BytesSeen:
    """What all bytes of a text file tell about its encoding.

    `sample` is its beginning.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.sample = b""
        self.size = 0
        self._is_utf8, self._has_nul = True, False
        self._is_windows = True
        self._has_return = self._has_feed = False
        self._valid = self._invalid = 0
        self._places: list[bytes] = []
        self._strict = codecs.getincrementaldecoder("utf-8")()
        self._lenient = codecs.getincrementaldecoder("utf-8")("replace")
        for piece in pieces:
            self._see(piece)
        self._count(b"", is_last=True)

    def encoding(self) -> Encoding | None:
        """Return the encoding, None if it is neither sure nor likely."""
        for mark, encoding in _MARKS:
            if self.sample.startswith(mark):
                return encoding
        if self._has_nul:
            return _utf16_of(self.sample)
        if self._is_utf8:
            return "utf-8"
        # Text of UTF-8 with a broken character is damaged, and not of Windows.
        if not self._is_windows or self._valid > self._invalid:
            return None
        return "cp1252" if _is_likely(b"\n".join(self._places)) else None

    @property
    def is_utf8(self) -> bool:
        """True if all bytes are UTF-8."""
        return self._is_utf8

    @property
    def is_damaged_utf8(self) -> bool:
        """True if most characters beyond ASCII are UTF-8, and some are not."""
        return not self._is_utf8 and self._valid > self._invalid

    @property
    def has_nul(self) -> bool:
        """True if there is a NUL byte."""
        return self._has_nul

    @property
    def has_old_line_ends(self) -> bool:
        """True if lines end with a carriage return alone."""
        return self._has_return and not self._has_feed

    def example(self, encoding: str) -> str:
        """Return the first place with a byte beyond ASCII."""
        return self._places[0].decode(encoding, "replace").strip() if self._places else ""

    def _see(self, piece: bytes) -> None:
        self.size += len(piece)
        if len(self.sample) < SAMPLE_BYTES:
            self.sample += piece[: SAMPLE_BYTES - len(self.sample)]
        self._has_nul = self._has_nul or b"\0" in piece
        self._has_return = self._has_return or b"\r" in piece
        self._has_feed = self._has_feed or b"\n" in piece
        if not self._has_nul:
            self._count(piece)

    def _count(self, piece: bytes, *, is_last: bool = False) -> None:
        if self._is_utf8:
            try:
                self._strict.decode(piece, final=is_last)
            except UnicodeDecodeError:
                self._is_utf8 = False
        text = self._lenient.decode(piece, final=is_last)
        if text.isascii():
            return
        invalid = text.count("\ufffd")
        self._invalid += invalid
        self._valid += len(text) - len(text.encode("ascii", "ignore")) - invalid
        self._is_windows = self._is_windows and not _NOT_OF_WINDOWS.search(piece)
        if len(self._places) < _MOST_PLACES:
            self._places += _PLACES.findall(piece)[: _MOST_PLACES - len(self._places)]


def _utf16_of(sample: bytes) -> Encoding | None:
    """Return the order of bytes of UTF-16 without a mark, None if it is none.

    Most line feeds of the bytes are line feeds of the text, and there are no NUL characters,
    private or unassigned ones.
    """
    whole = sample[: len(sample) // 2 * 2]
    feeds = whole.count(b"\n") + whole.count(b"\r")
    orders: tuple[Encoding, Encoding] = ("utf-16-le", "utf-16-be")
    for order in orders:
        try:
            text = codecs.getincrementaldecoder(order)().decode(whole)
        except UnicodeDecodeError:
            continue
        ends = text.count("\n") + text.count("\r")
        if not ends or 2 * ends < feeds or "\0" in text:
            continue
        if not {"Cn", "Co"} & {unicodedata.category(sign) for sign in set(text)}:
            return order
    return None


def _is_likely(places: bytes) -> bool:
    """Return True if text beyond ASCII is likely to be Windows-1252."""
    text = places.decode("cp1252", "replace")
    high = [sign for sign in text if not sign.isascii()]
    letters = sum(sign.isalpha() for sign in text)
    high_letters = sum(sign.isalpha() for sign in high)
    rare = sum(sign in _RARE for sign in high)
    words = [word for word in re.findall(r"[^\W\d_]{3,}", text) if not word.isascii()]
    foreign = sum(all(not sign.isascii() for sign in word) for word in words)
    return (
        high_letters <= _MOST_HIGH * letters
        and rare <= _MOST_RARE * len(high)
        and foreign <= _MOST_FOREIGN * len(words)
    )


def as_utf8(pieces: Iterable[bytes], encoding: str, *, old_line_ends: bool) -> Iterator[bytes]:
    """Yield a text in UTF-8 with line feeds.

    Raises:
        NotARecord: something is not of the encoding.
    """
    if encoding == "utf-8":
        yield from (piece.replace(b"\r", b"\n") if old_line_ends else piece for piece in pieces)
        return
    for text in _decoded(pieces, "utf-16-le" if encoding == "utf-16" else encoding):
        yield (text.replace("\r", "\n") if old_line_ends else text).encode()


def _decoded(pieces: Iterable[bytes], encoding: str) -> Iterator[str]:
    decoder, line = codecs.getincrementaldecoder(encoding)(), 1
    try:
        for piece in pieces:
            text = decoder.decode(piece)
            line += text.count("\n")
            yield text
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        what = f"from here on, the byte 0x{error.object[error.start]:02x} is not {encoding}"
        advice = "Give the file's own encoding, or save it as UTF-8."
        raise NotARecord(line, "not_of_encoding", what, advice, is_final=True) from error
