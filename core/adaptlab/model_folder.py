"""A model folder before any weight is loaded: what its headers say, and its fingerprint."""

import hashlib
import json
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from safetensors import SafetensorError, safe_open

from adaptlab.errors import BadModelFolder
from adaptlab.huggingface import (
    CONFIG,
    PublishedFamily,
    PublishedTensor,
    read_family,
    weight_files,
)
from adaptlab.spec import ModelFile

DTYPES = ("F64", "F32", "F16", "BF16")
LENGTH_BYTES = 8  # before the header stands its length, little-endian
LARGEST_HEADER = 10**8  # bytes, as the library has it
SAMPLE_BYTES = 4096


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
class CheckedFolder:
    """A folder whose files hold exactly one model, as far as their headers tell.

    `sources` says for each of this project's tensors, tied heads that are stored twice among
    them, in which stored tensor it stands and how; `stored` are all tensors of all files.
    """

    folder: Path
    family: PublishedFamily
    sources: Mapping[str, tuple[StoredTensor, PublishedTensor]]
    stored: tuple[StoredTensor, ...]


def check_folder(folder: Path) -> CheckedFolder:
    """Check configuration and headers; raises `BadModelFolder` with the name of what is wrong.

    Names, shapes and types of all tensors are checked; the numbers themselves are not read.
    """
    with _readable(folder):
        family = read_family(folder)
        files = weight_files(folder)
    stored = tuple(tensor for path in files for tensor in _tensors(path))
    by_name = _without_prefix(family, stored)
    sources = {
        name: (by_name[source.name], source) for name, source in _wanted(family, by_name).items()
    }
    shape = family.shape()
    for name, (found, source) in sources.items():
        _check_header(found, source.stored_shape(shape.tensors[shape.tied.get(name, name)].shape))
    return CheckedFolder(folder, family, sources, stored)


def fingerprint(checked: CheckedFolder) -> tuple[ModelFile, ...]:
    """What tells this model from another without reading all of it; raises `BadModelFolder`.

    Of `config.json` every byte counts; of a file of weights its size, its header and up to 4 KiB
    from the middle of each tensor. Weights that were trained further differ in all of them.
    """
    config = checked.folder / CONFIG
    with _readable(config):
        content = config.read_bytes()
    files = [ModelFile(name=CONFIG, size=len(content), digest=hashlib.sha256(content).hexdigest())]
    for path in sorted({tensor.file for tensor in checked.stored}):
        with _readable(path), path.open("rb") as file:
            digest = _digest(file, (tensor for tensor in checked.stored if tensor.file == path))
            files.append(ModelFile(name=path.name, size=path.stat().st_size, digest=digest))
    return tuple(files)


def _digest(file: BinaryIO, tensors: Iterable[StoredTensor]) -> str:
    digest = hashlib.sha256(_header(file))
    for tensor in sorted(tensors, key=lambda tensor: tensor.start):
        begin = max(tensor.start, (tensor.start + tensor.stop - SAMPLE_BYTES) // 2)
        file.seek(begin)
        digest.update(file.read(min(SAMPLE_BYTES, tensor.stop - begin)))
    return digest.hexdigest()


def _header(file: BinaryIO) -> bytes:
    """The header of a file that the library has found to be whole."""
    length = int.from_bytes(file.read(LENGTH_BYTES), "little")
    return file.read(min(length, LARGEST_HEADER))


def _tensors(path: Path) -> list[StoredTensor]:
    """All tensors of one file, by its header."""
    with _readable(path):
        try:
            # The library checks that header and content fit, and reads nothing of the content.
            with safe_open(path, framework="np"), path.open("rb") as file:
                header = _header(file)
        except SafetensorError as error:
            raise BadModelFolder(
                f"{path.name} is not a whole safetensors file: {error}."
            ) from error
    described: dict[str, Any] = json.loads(header)  # checked by the library
    described.pop("__metadata__", None)
    begin = LENGTH_BYTES + len(header)
    return [
        StoredTensor(
            file=path,
            name=name,
            dtype=str(tensor["dtype"]),
            shape=tuple(tensor["shape"]),
            start=begin + tensor["data_offsets"][0],
            stop=begin + tensor["data_offsets"][1],
        )
        for name, tensor in described.items()
    ]


def _without_prefix(
    family: PublishedFamily, stored: Iterable[StoredTensor]
) -> dict[str, StoredTensor]:
    """The tensors under their names without the family's prefix, buffers left out."""
    found: dict[str, StoredTensor] = {}
    for tensor in stored:
        short = tensor.name.removeprefix(family.prefix)
        if short in found:
            raise BadModelFolder(f"The tensor {tensor.name} of {tensor.file.name} is there twice.")
        if not short.endswith(family.buffers or ("\0",)):
            found[short] = tensor
    return found


def _wanted(
    family: PublishedFamily, stored: Mapping[str, StoredTensor]
) -> dict[str, PublishedTensor]:
    """Where every tensor of the family stands; raises unless these are all that there are.

    A tied head may be stored once more beside the embedding.
    """
    shape, places = family.shape(), family.published_tensors()
    doubles = {name for name in shape.tied if places[name].name in stored}
    wanted = {name: places[name] for name in (*shape.tensors, *sorted(doubles))}
    needed = {source.name for source in wanted.values()}
    missing, extra = needed - stored.keys(), stored.keys() - needed
    if missing or extra:
        raise BadModelFolder(
            f"For the {family.name} that its config.json describes, the folder lacks the tensors "
            f"{_some(missing)} and has {_some(extra)} beyond them."
        )
    return wanted


def _some(names: set[str]) -> str:
    """Names for a message, the first few of many, each cut to a sensible length."""
    listed = [name[:200] for name in sorted(names)]
    shown = ", ".join(listed[:8]) or "(none)"
    return shown if len(listed) <= 8 else f"{shown} and {len(listed) - 8} more"


def _check_header(stored: StoredTensor, expected: tuple[int, ...]) -> None:
    if stored.shape != expected:
        raise BadModelFolder(f"{stored.name} is {stored.shape} instead of {expected}.")
    if stored.dtype not in DTYPES:
        raise BadModelFolder(
            f"{stored.name} is stored as {stored.dtype}; give weights in one of {DTYPES}."
        )


@contextmanager
def _readable(path: Path) -> Generator[None]:
    """Tell by name, and without the place, of what cannot be read."""
    try:
        yield
    except OSError as error:
        raise BadModelFolder(f"{path.name} cannot be read: {error.strerror or error}.") from error
