"""Statistics of a metric by item, as they are sent and stored.

They are the numbers of [item, column], compressed by zlib behind one byte for their kind: small
whole numbers take one or two bytes, others are float32. Both are little-endian.
"""

import base64
import zlib
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

KINDS: Mapping[bytes, str] = MappingProxyType({b"B": "<u1", b"H": "<u2", b"f": "<f4"})


def packed(statistics: NDArray[np.float64]) -> bytes:
    """Return statistics, [item, column], in as few bytes as they need."""
    whole = bool((statistics == np.floor(statistics)).all() and (statistics >= 0).all())
    most = float(statistics.max(initial=0))
    kind = b"f" if not whole or most >= 2**16 else b"H" if most >= 2**8 else b"B"
    return zlib.compress(kind + statistics.astype(KINDS[kind]).tobytes())


def unpacked(data: bytes, items: int, columns: int) -> NDArray[np.float64]:
    """Return statistics, [item, column].

    Raises `ValueError` if the bytes have none of this shape.
    """
    reader = zlib.decompressobj()
    try:
        raw = reader.decompress(data, 1 + 4 * items * columns)
    except zlib.error as error:
        raise ValueError("They are not compressed by zlib.") from error
    numbers = np.dtype(KINDS.get(raw[:1], "<f4"))
    if raw[:1] not in KINDS or len(raw) != 1 + items * columns * numbers.itemsize or not reader.eof:
        raise ValueError(f"They are not numbers of {items:,} items × {columns} columns.")
    found = np.frombuffer(raw, numbers, offset=1).reshape(items, columns).astype(np.float64)
    if not np.isfinite(found).all():
        raise ValueError("They are not finite.")
    return found


def as_text(data: bytes) -> str:
    """Return packed statistics as text, for reports."""
    return base64.b64encode(data).decode()


def from_text(text: str) -> bytes:
    """Return packed statistics; raise `ValueError` if the text has none."""
    return base64.b64decode(text, validate=True)
