"""The table of digits that ships with scikit-learn, read from its file."""

import gzip
import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from adaptlab.errors import BadDataset
from adaptlab.records.pictures import LEVELS

PLACE = "datasets/data/digits.csv.gz"
DIGEST = "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"
"""The SHA-256 of the table, unpacked."""
DARKEST = 16


class DigitRow(NamedTuple):
    """An image of the table: its 64 levels from 0 to 255, where 255 is ink."""

    levels: bytes
    digit: int


@lru_cache(maxsize=1)
def digit_rows() -> tuple[DigitRow, ...]:
    """Return the rows of the table.

    Raises:
        BadDataset: it is not installed, or is another.
    """
    found = find_spec("sklearn")  # found, not imported
    if found is None or not found.submodule_search_locations:
        raise BadDataset(
            "The images of digits ship with scikit-learn, which is not installed. Install "
            "adaptlab[images]."
        )
    path = Path(found.submodule_search_locations[0]) / PLACE
    try:
        table = gzip.decompress(path.read_bytes())
    except OSError as error:
        raise BadDataset(f"{PLACE} of scikit-learn cannot be read: {error}.") from error
    if hashlib.sha256(table).hexdigest() != DIGEST:
        raise BadDataset(
            f"{PLACE} of the installed scikit-learn is not the file that the splits were made of. "
            "Install the version of constraints.txt."
        )
    return tuple(map(_row, table.split()))


def _row(line: bytes) -> DigitRow:
    *pixels, digit = (float(cell) for cell in line.split(b","))
    return DigitRow(bytes(round(pixel * (LEVELS - 1) / DARKEST) for pixel in pixels), int(digit))
