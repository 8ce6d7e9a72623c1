"""Checks of a safetensors file before its tensors are read.

The format is a length in eight bytes, a header of that many bytes of JSON, then the numbers. A
malicious header can cost much memory, so it is checked here before the library reads the file.
"""

import errno
import io
import json
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

from adaptlab.errors import BadWeightsFile

LENGTH_BYTES = 8  # the length of the header, little-endian
LARGEST_HEADER = 2**20
"""Bytes. The library accepts 100 MB; a header of 59 MB with a million empty tensors took it 11.5 s
and 2.4 GiB of memory."""
MOST_TENSORS = 10_000
MOST_AXES = 8
LONGEST_NAME = 256
ITEM_BYTES: Mapping[str, int] = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
}
"""The allowed types. Weights have one of the first four; old files have masks in other types."""
WEIGHT_DTYPES = ("F64", "F32", "F16", "BF16")
METADATA = "__metadata__"
_MEMBERS = {"dtype", "shape", "data_offsets"}

JsonObject = dict[str, object]


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in the bytes `start` to `stop` of a file."""

    file: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """A file with a valid header, filled completely by its tensors.

    `header` are the bytes of the length and the header.
    """

    path: Path
    header: bytes
    tensors: tuple[StoredTensor, ...]
    metadata: Mapping[str, str]


def read_header(path: Path, within: Path | None = None) -> WeightsFile:
    """Return the checked header of a file.

    Only the header is read, and only up to `LARGEST_HEADER` bytes. See `opened` for `within`.

    Raises:
        BadWeightsFile: the header is invalid.
        OSError: the file cannot be read.
    """
    with opened(path, within) as file:
        return read_header_of(file, path)


def read_header_of(file: BinaryIO, path: Path) -> WeightsFile:
    """Return the checked header of an open file, read from its beginning.

    `path` names it in messages and is not opened.

    Raises:
        BadWeightsFile: the header is invalid.
        OSError: the file cannot be read.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return _checked(path, _header_bytes(file, path.name), size)


def read_header_in(start: bytes, size: int, path: Path) -> WeightsFile:
    """Return the checked header of a file that begins with `start`.

    The file has `size` bytes. `path` names it in messages and is not opened.

    Raises:
        BadWeightsFile: the header is invalid.
    """
    return _checked(path, _header_bytes(io.BytesIO(start), path.name), size)


def opened(path: Path, within: Path | None = None) -> BinaryIO:
    """Open a regular file for reading.

    The file at the path can be exchanged at any time. So links are resolved first, but not followed
    while the file is opened. Checks apply to the open file, not to the path. Opening never blocks,
    as it could for a pipe. `within` is a folder without links.

    Raises:
        OSError: the path is not a regular file, or is outside `within`.
    """
    place = path.resolve(strict=True)
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if within is not None and not _place_of(descriptor, place).is_relative_to(within):
            raise OSError(errno.EPERM, "it is outside its model root")
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _place_of(descriptor: int, place: Path) -> Path:
    """Return the path of an open file, from the kernel if there is a /proc."""
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink()
    except OSError:
        return place.resolve()


def _checked(path: Path, header: bytes, size: int) -> WeightsFile:
    described = _json_object(header[LENGTH_BYTES:], path.name)
    metadata = _metadata(described.pop(METADATA, {}), path.name)
    if len(described) > MOST_TENSORS:
        _refuse(
            path.name, f"it has {len(described):,} tensors, more than the limit of {MOST_TENSORS:,}"
        )
    tensors = tuple(_tensor(path, name, entry, len(header)) for name, entry in described.items())
    _check_places(path.name, tensors, len(header), size)
    return WeightsFile(path, header, tensors, metadata)


def _header_bytes(file: BinaryIO, name: str) -> bytes:
    """Return the length and the header of a file."""
    start = file.read(LENGTH_BYTES)
    length = int.from_bytes(start, "little")
    if len(start) < LENGTH_BYTES:
        _refuse(name, f"it has {len(start)} bytes, less than the {LENGTH_BYTES} of the length")
    if length > LARGEST_HEADER:
        _refuse(name, f"its header has {length} bytes, more than the limit of {LARGEST_HEADER}")
    header = file.read(length)
    if len(header) < length:
        _refuse(name, f"it ends after {len(header)} of the {length} bytes of its header")
    return start + header


def _json_object(content: bytes, name: str) -> JsonObject:
    """Return the header as JSON without repeated names, NaN and infinity."""
    try:
        header: object = json.loads(
            content.decode(), object_pairs_hook=_once_each, parse_constant=_no_number
        )
    except (ValueError, RecursionError) as error:
        raise BadWeightsFile(f"{_verdict(name)}: its header is not JSON: {error}.") from error
    if not isinstance(header, dict):
        _refuse(name, "its header is not a JSON object")
    return cast("JsonObject", header)


def _once_each(pairs: list[tuple[str, object]]) -> JsonObject:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name occurs twice")
    return members


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _metadata(value: object, name: str) -> dict[str, str]:
    """Return the metadata, which the format restricts to texts by name."""
    texts = cast("JsonObject", value) if isinstance(value, dict) else {"": None}
    if not all(isinstance(text, str) for text in texts.values()):
        _refuse(name, f"its {METADATA} is not an object of texts")
    return cast("dict[str, str]", texts)


def _tensor(path: Path, name: str, entry: object, begin: int) -> StoredTensor:
    """Return a tensor of the header; `begin` is the first byte of the numbers."""
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        _refuse(
            path.name,
            f"{name[:60]!r} is not a name of 1 to {LONGEST_NAME} printable characters",
        )
    described = cast("JsonObject", entry) if isinstance(entry, dict) else {}
    if described.keys() != _MEMBERS:
        _refuse(
            path.name, f"{name} must have the members {', '.join(sorted(_MEMBERS))} and no others"
        )
    dtype = described["dtype"]
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        _refuse(path.name, f"{name} has the type {str(dtype)[:20]!r}, not one of {[*ITEM_BYTES]}")
    shape = _integers(path.name, name, "shape", described["shape"], range(MOST_AXES + 1))
    start, stop = _integers(path.name, name, "data_offsets", described["data_offsets"], range(2, 3))
    size = math.prod(shape) * ITEM_BYTES[dtype]  # Python's integers: it cannot overflow
    if stop - start != size:
        _refuse(
            path.name,
            f"{name} is {dtype} {_short(shape)} and so needs {_short(size)} bytes, but its "
            f"data_offsets are {_short(start)} and {_short(stop)}",
        )
    return StoredTensor(path, name, dtype, shape, begin + start, begin + stop)


def _integers(file: str, name: str, member: str, value: object, counts: range) -> tuple[int, ...]:
    """Return a list of whole numbers from 0, with a length in `counts`."""
    listed = cast("list[object]", value) if isinstance(value, list) else [None]
    # A bool is an int in Python, but not in the format.
    whole = tuple(item for item in listed if type(item) is int and item >= 0)
    if len(whole) < len(listed) or len(whole) not in counts:
        shown = _short(cast("object", value))
        _refuse(file, f"the {member} of {name} are {shown}, not whole numbers from 0")
    return whole


def _check_places(name: str, tensors: tuple[StoredTensor, ...], begin: int, size: int) -> None:
    """Raise unless the tensors fill the file without gaps and overlaps."""
    at = begin
    for tensor in sorted(tensors, key=lambda tensor: (tensor.start, tensor.stop)):
        if tensor.start != at:
            fault = (
                "overlaps the bytes before it" if tensor.start < at else "leaves a gap before it"
            )
            _refuse(name, f"{tensor.name} begins at byte {_short(tensor.start)}, which {fault}")
        at = tensor.stop
    if at != size:
        _refuse(name, f"its tensors end at byte {_short(at)}, but the file has {size} bytes")


def _short(value: object) -> str:
    """Return a value for a message, shortened."""
    try:
        text = str(value)
    except ValueError:  # Python does not print integers of more than some thousand digits
        return "(too large)"
    return text if len(text) <= 60 else f"{text[:60]} …"


def _verdict(name: str) -> str:
    return f"{name} is not a whole safetensors file"


def _refuse(name: str, reason: str) -> NoReturn:
    raise BadWeightsFile(f"{_verdict(name)}: {reason}.")
