"""Attention patterns, read from the store without the rest of their map."""

import io
import math

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from adaptlab_answers.attention import MapView
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_services.results.attention_heads import MapOutline

HEADER_BYTES = 1024  # more than the header of any array with a handful of axes


def pattern(
    session: Session, shown: MapView | MapOutline, sample: int, layer: int, head: int
) -> NDArray[np.float64]:
    """Return one head's attention weights on one sample, shape [query, key].

    Raises:
        IndexError: the map has no such sample, layer or head.
    """
    _check(shown, (sample, layer, head))
    return _read(session, shown, sample, (layer, layer + 1))[0, head]


def patterns_of_layers(
    session: Session, shown: MapView | MapOutline, sample: int, layers: tuple[int, int]
) -> NDArray[np.float64]:
    """Return all heads' weights on a sample, shape [layer, head, query, key].

    Args:
        session: the caller's unit of work.
        shown: the map.
        sample: index of the sample.
        layers: the first layer, and the one after the last.

    Raises:
        IndexError: the map has no such sample or layer.
    """
    first, stop = layers
    _check(shown, (sample, first, 0))
    _check(shown, (sample, stop - 1, 0))
    return _read(session, shown, sample, layers)


def _check(shown: MapView | MapOutline, place: tuple[int, int, int]) -> None:
    if any(not 0 <= index < length for index, length in zip(place, shown.shape[:3], strict=True)):
        raise IndexError(
            f"Map {shown.id} has no sample, layer and head {place}: it has {shown.shape[:3]}, "
            "counted from 0."
        )


def _read(
    session: Session, shown: MapView | MapOutline, sample: int, layers: tuple[int, int]
) -> NDArray[np.float64]:
    """Return some consecutive layers of one sample."""
    start, item_type = _header(_bytes(session, shown.sha256, 0, HEADER_BYTES))
    _, depth, heads, rows, columns = shown.shape
    length = heads * rows * columns * item_type.itemsize
    first, stop = (start + (sample * depth + layer) * length for layer in layers)
    content = _bytes(session, shown.sha256, first, stop)
    return np.frombuffer(content, item_type).reshape(-1, heads, rows, columns).astype(np.float64)


def _bytes(session: Session, sha256: str, start: int, stop: int) -> bytes:
    return b"".join(ArtifactStore(session).read(sha256, start, stop))


def _header(content: bytes) -> "tuple[int, np.dtype[np.float16]]":
    """Return the offset of the numbers in a `.npy` file, and their type."""
    file = io.BytesIO(content)
    npy.read_magic(file)
    _, column_first, item_type = npy.read_array_header_1_0(file)
    if column_first or not math.isclose(item_type.itemsize, 2):
        raise ValueError(f"An attention map must be row-major float16, but this is {item_type}.")
    return file.tell(), item_type
