"""The number of rows in the footer of a Parquet file.

arro3 does not tell it. The footer is a struct in Thrift's compact protocol: version, schema, number
of rows and more (Apache Parquet, `parquet.thrift`, `FileMetaData`).
"""

from collections.abc import Mapping
from pathlib import Path

_END = 8
"""Bytes behind the footer: its length, and the magic word."""
_ROWS = 3
"""The field with the number of rows."""
_BOOLEANS, _BYTE, _WORDS, _DOUBLE, _BYTES = (1, 2), 3, (4, 5, 6), 7, 8
_LISTS, _STRUCT = (9, 10), 12
_DEEPEST = 16
_LARGEST = 2**24
"""Bytes of a footer that are read."""


def rows_of(path: Path) -> int | None:
    """Return the number of rows, None if the footer does not tell."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _END))
        length = int.from_bytes(file.read(4), "little")
        if not 0 < length <= min(size - _END, _LARGEST):
            return None
        file.seek(size - _END - length)
        footer = file.read(length)
    try:
        rows = _Compact(footer).struct(until=_ROWS).get(_ROWS)
    except (IndexError, ValueError):
        return None
    return rows if rows is not None and rows >= 0 else None


class _Compact:
    """A reader of Thrift's compact protocol that keeps whole numbers.

    It raises `IndexError` at the end of the bytes, and `ValueError` for what is no such struct.
    """

    def __init__(self, content: bytes) -> None:
        self._content, self._place = content, 0

    def struct(self, until: int, depth: int = 0) -> Mapping[int, int]:
        """Return the whole numbers of a struct by field, up to a field."""
        if depth > _DEEPEST:
            raise ValueError("too deep")
        found: dict[int, int] = {}
        field = 0
        while (head := self._byte()) != 0:
            kind, step = head & 15, head >> 4
            field = field + step if step else _signed(self._varint())
            if kind in _WORDS:
                found[field] = _signed(self._varint())
            elif kind not in _BOOLEANS:  # whose value is the kind itself
                self._skip(kind, depth)
            if field >= until:
                break
        return found

    def _skip(self, kind: int, depth: int) -> None:
        if kind == _BYTE or kind in _BOOLEANS:
            self._byte()
        elif kind in _WORDS:
            self._varint()
        elif kind in (_DOUBLE, _BYTES):
            self._move(8 if kind == _DOUBLE else self._varint())
        elif kind in _LISTS:
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            for _ in range(count):
                self._skip(head & 15, depth)
        elif kind == _STRUCT:
            self.struct(until=2**31, depth=depth + 1)
        else:
            raise ValueError("an unknown kind")

    def _byte(self) -> int:
        value = self._content[self._place]
        self._place += 1
        return value

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("too long a number")

    def _move(self, count: int) -> None:
        self._place += count
        if self._place > len(self._content):
            raise IndexError("beyond the end")


def _signed(value: int) -> int:
    return (value >> 1) ^ -(value & 1)
