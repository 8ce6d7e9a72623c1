"""One pattern out of an attention map: only its own bytes are read from the store."""

import io
import math

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from adaptlab_db.artifacts import ArtifactStore
from adaptlab_services.attention import MapView

HEADER_BYTES = 1024  # more than the header of any array with a handful of axes


def pattern(
    session: Session, shown: MapView, sample: int, layer: int, head: int
) -> NDArray[np.float64]:
    """The attention weights of one head on one sample, of shape [query, key].

    Raises `IndexError` for a place that the map does not have.
    """
    place = (sample, layer, head)
    if any(not 0 <= index < length for index, length in zip(place, shown.shape[:3], strict=True)):
        raise IndexError(
            f"Map {shown.id} has no sample, layer and head {place}: {shown.shape[:3]}."
        )
    start, item_type = _header(_bytes(session, shown.sha256, 0, HEADER_BYTES))
    rows, columns = shown.shape[3:]
    length = rows * columns * item_type.itemsize
    start += int(np.ravel_multi_index(place, shown.shape[:3])) * length
    content = _bytes(session, shown.sha256, start, start + length)
    return np.frombuffer(content, item_type).reshape(rows, columns).astype(np.float64)


def _bytes(session: Session, sha256: str, start: int, stop: int) -> bytes:
    return b"".join(ArtifactStore(session).read(sha256, start, stop))


def _header(content: bytes) -> tuple[int, np.dtype[np.float16]]:
    """Where the numbers begin in a `.npy` file, and of which type they are."""
    file = io.BytesIO(content)
    npy.read_magic(file)
    _, column_first, item_type = npy.read_array_header_1_0(file)
    if column_first or not math.isclose(item_type.itemsize, 2):
        raise ValueError(f"An attention map is row-first float16, not {item_type}.")
    return file.tell(), item_type
