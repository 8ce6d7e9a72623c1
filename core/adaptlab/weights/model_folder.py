"""A model folder before any weight is loaded: what its headers say, and its fingerprint."""

import hashlib
import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from adaptlab.errors import BadModelFolder, BadWeightsFile
from adaptlab.values import Value
from adaptlab.weights.huggingface import (
    CONFIG,
    LARGEST_JSON,
    PublishedFamily,
    PublishedTensor,
    read_family,
    weight_files,
)
from adaptlab.weights.weights_file import (
    LENGTH_BYTES,
    MOST_TENSORS,
    WEIGHT_DTYPES,
    StoredTensor,
    WeightsFile,
    opened,
    read_header,
)


class ModelFile(Value):
    """A file of a model folder, as it was when the job was made.

    `digest` is a SHA-256: of a small file, or of the header and samples of a file of weights; see
    `fingerprint`.
    """

    name: str
    size: int
    digest: str


SAMPLE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class CheckedFolder:
    """A folder whose files hold exactly one model, as far as their headers tell.

    `sources` says for each of this project's tensors, tied heads that are stored twice among
    them, in which stored tensor it stands and how; `stored` are all tensors of all files. No file
    outside `within` is read.
    """

    folder: Path
    within: Path | None
    family: PublishedFamily
    sources: Mapping[str, tuple[StoredTensor, PublishedTensor]]
    stored: tuple[StoredTensor, ...]


def check_folder(folder: Path, within: Path | None = None) -> CheckedFolder:
    """Check configuration and headers; raises `BadModelFolder` with the name of what is wrong.

    Names, shapes and types of all tensors are checked; the numbers themselves are not read. Files
    that lie outside the folder `within`, when they are opened, are refused.
    """
    with _readable(folder):
        family = read_family(folder, within)
        files = weight_files(folder, within)
    stored = _all_tensors(files, within)
    by_name = _without_prefix(family, stored)
    sources = {
        name: (by_name[source.name], source) for name, source in _wanted(family, by_name).items()
    }
    shape = family.shape()
    for name, (found, source) in sources.items():
        _check_header(found, source.stored_shape(shape.tensors[shape.tied.get(name, name)].shape))
    return CheckedFolder(folder, within, family, sources, stored)


def fingerprint(checked: CheckedFolder) -> tuple[ModelFile, ...]:
    """What tells this model from another without reading all of it; raises `BadModelFolder`.

    Of `config.json` every byte counts; of a file of weights its size, its header and up to 4 KiB
    from the middle of each tensor. Weights that were trained further differ in all of them.
    """
    config = checked.folder / CONFIG
    with _readable(config), opened(config, checked.within) as file:
        content = file.read(LARGEST_JSON + 1)
    files = [ModelFile(name=CONFIG, size=len(content), digest=hashlib.sha256(content).hexdigest())]
    for path in sorted({tensor.file for tensor in checked.stored}):
        with _readable(path), opened(path, checked.within) as file:
            digest = _digest(file, [tensor for tensor in checked.stored if tensor.file == path])
            size = os.fstat(file.fileno()).st_size
            files.append(ModelFile(name=path.name, size=size, digest=digest))
    return tuple(files)


def _digest(file: BinaryIO, tensors: Sequence[StoredTensor]) -> str:
    # From its length to the first tensor goes the header, which has been checked.
    file.seek(LENGTH_BYTES)
    begin = min(tensor.start for tensor in tensors)
    digest = hashlib.sha256(file.read(begin - LENGTH_BYTES))
    for tensor in sorted(tensors, key=lambda tensor: tensor.start):
        begin = max(tensor.start, (tensor.start + tensor.stop - SAMPLE_BYTES) // 2)
        file.seek(begin)
        digest.update(file.read(min(SAMPLE_BYTES, tensor.stop - begin)))
    return digest.hexdigest()


def _checked_file(path: Path, within: Path | None) -> WeightsFile:
    """One file of weights, by its header."""
    with _readable(path):
        try:
            return read_header(path, within)
        except BadWeightsFile as error:
            raise BadModelFolder(str(error)) from error


def _all_tensors(files: Iterable[Path], within: Path | None) -> tuple[StoredTensor, ...]:
    """The tensors of all files, which together are no more than one file may hold."""
    stored: list[StoredTensor] = []
    for path in files:
        stored.extend(_checked_file(path, within).tensors)
        if len(stored) > MOST_TENSORS:
            raise BadModelFolder(
                f"The files up to {path.name} name {len(stored)} tensors, more than the "
                f"{MOST_TENSORS} taken."
            )
    return tuple(stored)


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
    if stored.dtype not in WEIGHT_DTYPES:
        raise BadModelFolder(
            f"{stored.name} is stored as {stored.dtype}; give weights in one of {WEIGHT_DTYPES}."
        )


@contextmanager
def _readable(path: Path) -> Generator[None]:
    """Tell by name, and without the place, of what cannot be read."""
    try:
        yield
    except OSError as error:
        raise BadModelFolder(f"{path.name} cannot be read: {error.strerror or error}.") from error
