"""A file of weights before any of them is read: what its header says, and whether it may be read.

The format is safetensors: a length in eight bytes, that many bytes of JSON, then the numbers. The
header is what can hurt, so it is read here, in little memory, before the library sees the file.
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

LENGTH_BYTES = 8  # before the header stands its length, little-endian
LARGEST_HEADER = 2**20
"""Bytes. The library takes 100 MB: measured, a header of 59 MB that names a million empty tensors
cost it 11.5 s and 2.4 GiB."""
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
"""The types that a file may hold. Weights are of the first four; old files keep masks in others."""
WEIGHT_DTYPES = ("F64", "F32", "F16", "BF16")
METADATA = "__metadata__"
_MEMBERS = {"dtype", "shape", "data_offsets"}

JsonObject = dict[str, object]


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor under its own name in a file, whose bytes `start` to `stop` it takes."""

    file: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """A file whose header is sound: its tensors fill it from the header's end to its own.

    `header` are the bytes of the length and of the header.
    """

    path: Path
    header: bytes
    tensors: tuple[StoredTensor, ...]
    metadata: Mapping[str, str]


def read_header(path: Path, within: Path | None = None) -> WeightsFile:
    """What the header of a file says; raises `BadWeightsFile`, or `OSError` if it cannot be read.

    No more than the header is read, and none that is longer than `LARGEST_HEADER`. See `opened`
    for `within`.
    """
    with opened(path, within) as file:
        header = _header_bytes(file, path.name)
        size = os.fstat(file.fileno()).st_size
    return _checked(path, header, size)


def read_header_in(start: bytes, size: int, path: Path) -> WeightsFile:
    """The header of a file of `size` bytes that begins with `start`; raises `BadWeightsFile`.

    `path` names the file in messages; it is not opened.
    """
    return _checked(path, _header_bytes(io.BytesIO(start), path.name), size)


def opened(path: Path, within: Path | None = None) -> BinaryIO:
    """A plain file for reading; raises `OSError` for anything else, and for one outside `within`.

    What is at the path may be exchanged at any moment. So links are followed first, none while it
    is opened; what was opened is looked at, not what is at the path; and opening never waits, as
    that of a pipe would. `within` is a folder without links.
    """
    place = path.resolve(strict=True)
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if within is not None and not _place_of(descriptor, place).is_relative_to(within):
            raise OSError(errno.EPERM, "it leads out of its model root")
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _place_of(descriptor: int, place: Path) -> Path:
    """Where an open file is, as the kernel has it; elsewhere than on Linux, as it was found."""
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink()
    except OSError:
        return place.resolve()


def _checked(path: Path, header: bytes, size: int) -> WeightsFile:
    described = _json_object(header[LENGTH_BYTES:], path.name)
    metadata = _metadata(described.pop(METADATA, {}), path.name)
    if len(described) > MOST_TENSORS:
        _refuse(path.name, f"it names {len(described)} tensors, more than the {MOST_TENSORS} taken")
    tensors = tuple(_tensor(path, name, told, len(header)) for name, told in described.items())
    _check_places(path.name, tensors, len(header), size)
    return WeightsFile(path, header, tensors, metadata)


def _header_bytes(file: BinaryIO, name: str) -> bytes:
    """The length and the header, of a file that has all of it."""
    start = file.read(LENGTH_BYTES)
    length = int.from_bytes(start, "little")
    if len(start) < LENGTH_BYTES:
        _refuse(name, f"it has {len(start)} bytes; {LENGTH_BYTES} tell the length of the header")
    if length > LARGEST_HEADER:
        _refuse(name, f"its header takes {length} bytes, more than the {LARGEST_HEADER} read")
    header = file.read(length)
    if len(header) < length:
        _refuse(name, f"it ends after {len(header)} of the {length} bytes of its header")
    return start + header


def _json_object(content: bytes, name: str) -> JsonObject:
    """The header as JSON, in which nothing stands twice and every number is one."""
    try:
        found: object = json.loads(
            content.decode(), object_pairs_hook=_once_each, parse_constant=_no_number
        )
    except (ValueError, RecursionError) as error:
        raise BadWeightsFile(f"{_told(name)}: its header is not JSON: {error}.") from error
    if not isinstance(found, dict):
        _refuse(name, "its header is no JSON object")
    return cast("JsonObject", found)


def _once_each(pairs: list[tuple[str, object]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands in it twice")
    return found


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


def _metadata(found: object, name: str) -> dict[str, str]:
    """Texts by name, as the format has it."""
    texts = cast("JsonObject", found) if isinstance(found, dict) else {"": None}
    if not all(isinstance(text, str) for text in texts.values()):
        _refuse(name, f"its {METADATA} is no object of texts")
    return cast("dict[str, str]", texts)


def _tensor(path: Path, name: str, told: object, begin: int) -> StoredTensor:
    """One tensor as the header describes it; `begin` is where the numbers begin."""
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        _refuse(
            path.name,
            f"{name[:60]!r} is no name of a tensor: give up to {LONGEST_NAME} printable letters",
        )
    described = cast("JsonObject", told) if isinstance(told, dict) else {}
    if described.keys() != _MEMBERS:
        _refuse(path.name, f"{name} is not described by {', '.join(sorted(_MEMBERS))} alone")
    dtype = described["dtype"]
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        _refuse(path.name, f"{name} is of the type {str(dtype)[:20]!r}, not of {[*ITEM_BYTES]}")
    shape = _integers(path.name, name, "shape", described["shape"], range(MOST_AXES + 1))
    start, stop = _integers(path.name, name, "data_offsets", described["data_offsets"], range(2, 3))
    size = math.prod(shape) * ITEM_BYTES[dtype]  # Python's integers: it cannot overflow
    if stop - start != size:
        _refuse(
            path.name,
            f"{name} is {dtype} {_short(shape)} and so takes {_short(size)} bytes, but its "
            f"data_offsets are {_short(start)} and {_short(stop)}",
        )
    return StoredTensor(path, name, dtype, shape, begin + start, begin + stop)


def _integers(file: str, name: str, member: str, told: object, many: range) -> tuple[int, ...]:
    """A list of whole numbers from 0 on, of a length within `many`."""
    listed = cast("list[object]", told) if isinstance(told, list) else [None]
    # A bool is an int in Python, and not in the format.
    whole = tuple(one for one in listed if type(one) is int and one >= 0)
    if len(whole) < len(listed) or len(whole) not in many:
        given = _short(cast("object", told))
        _refuse(file, f"the {member} of {name} are {given}, not whole numbers from 0 on")
    return whole


def _check_places(name: str, tensors: tuple[StoredTensor, ...], begin: int, size: int) -> None:
    """Raise unless the tensors follow on one another without a gap and end where the file does."""
    at = begin
    for tensor in sorted(tensors, key=lambda tensor: (tensor.start, tensor.stop)):
        if tensor.start != at:
            how = (
                "overlaps what stands before it" if tensor.start < at else "leaves a gap before it"
            )
            _refuse(name, f"{tensor.name} begins at byte {_short(tensor.start)}, which {how}")
        at = tensor.stop
    if at != size:
        _refuse(name, f"its tensors end at byte {_short(at)}, but the file has {size} bytes")


def _short(value: object) -> str:
    """A value for a message, cut to a sensible length."""
    try:
        text = str(value)
    except ValueError:  # Python writes no number of more than some thousand digits
        return "(too large)"
    return text if len(text) <= 60 else f"{text[:60]} …"


def _told(name: str) -> str:
    return f"{name} is not a whole safetensors file"


def _refuse(name: str, why: str) -> NoReturn:
    raise BadWeightsFile(f"{_told(name)}: {why}.")
