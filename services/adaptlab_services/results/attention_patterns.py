"""One pattern out of an attention map: only its own bytes are read from the store."""

import io
import math
from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from adaptlab_answers.attention import MapView
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_services.results.attention_heads import MapOutline

if TYPE_CHECKING:  # numpy is loaded by who looks at a map: the server saves 20 MB until then
    import numpy as np
    from numpy.typing import NDArray

HEADER_BYTES = 1024  # more than the header of any array with a handful of axes


def pattern(
    session: Session, shown: MapView | MapOutline, sample: int, layer: int, head: int
) -> "NDArray[np.float64]":
    """The attention weights of one head on one sample, of shape [query, key].

    Raises `IndexError` for a place that the map does not have.
    """
    _check(shown, (sample, layer, head))
    return _read(session, shown, sample, (layer, layer + 1))[0, head]


def patterns_of_layers(
    session: Session, shown: MapView | MapOutline, sample: int, layers: tuple[int, int]
) -> "NDArray[np.float64]":
    """The weights of all heads of some layers on one sample, of shape [layer, head, query, key].

    Args:
        session: the caller's unit of work.
        shown: the map.
        sample: which sample, from 0.
        layers: the first layer, and the one after the last.

    Raises `IndexError` for a place that the map does not have.
    """
    first, stop = layers
    _check(shown, (sample, first, 0))
    _check(shown, (sample, stop - 1, 0))
    return _read(session, shown, sample, layers)


def _check(shown: MapView | MapOutline, place: tuple[int, int, int]) -> None:
    if any(not 0 <= index < length for index, length in zip(place, shown.shape[:3], strict=True)):
        raise IndexError(
            f"Map {shown.id} has no sample, layer and head {place}: {shown.shape[:3]}."
        )


def _read(
    session: Session, shown: MapView | MapOutline, sample: int, layers: tuple[int, int]
) -> "NDArray[np.float64]":
    """Some layers of one sample, which lie behind each other."""
    import numpy as np

    start, item_type = _header(_bytes(session, shown.sha256, 0, HEADER_BYTES))
    _, depth, heads, rows, columns = shown.shape
    length = heads * rows * columns * item_type.itemsize
    first, stop = (start + (sample * depth + layer) * length for layer in layers)
    content = _bytes(session, shown.sha256, first, stop)
    return np.frombuffer(content, item_type).reshape(-1, heads, rows, columns).astype(np.float64)


def _bytes(session: Session, sha256: str, start: int, stop: int) -> bytes:
    return b"".join(ArtifactStore(session).read(sha256, start, stop))


def _header(content: bytes) -> "tuple[int, np.dtype[np.float16]]":
    """Where the numbers begin in a `.npy` file, and of which type they are."""
    from numpy.lib import format as npy

    file = io.BytesIO(content)
    npy.read_magic(file)
    _, column_first, item_type = npy.read_array_header_1_0(file)
    if column_first or not math.isclose(item_type.itemsize, 2):
        raise ValueError(f"An attention map is row-first float16, not {item_type}.")
    return file.tell(), item_type
