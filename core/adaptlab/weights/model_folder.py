"""Checks and fingerprint of a model folder, before weights are loaded."""

import hashlib
import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from adaptlab.errors import BadModelFolder, BadWeightsFile
from adaptlab.text.chat import CONFIG_FILE, TEMPLATE_FILE
from adaptlab.text.folder_tokeniser import GENERATION, check_end
from adaptlab.text.tokeniser import FILE as TOKENISER
from adaptlab.weights.folder_files import FolderFiles, PlainFolder
from adaptlab.weights.huggingface import (
    CONFIG,
    LARGEST_JSON,
    PublishedFamily,
    PublishedTensor,
    read_description,
    unreadable,
    weight_files,
)
from adaptlab.weights.model_file import ModelFile
from adaptlab.weights.preprocessor import PREPROCESSOR, read_preprocessor
from adaptlab.weights.weights_file import (
    LENGTH_BYTES,
    MOST_TENSORS,
    WEIGHT_DTYPES,
    StoredTensor,
    WeightsFile,
    read_header_of,
)

AGAIN = "copy all of them again from where it is published"
SAMPLE_BYTES = 4096
LARGEST_TOKENISER = 64 * 2**20
"""Limit of a tokeniser, and of the files with its chat template."""

CHAT_FILES = (CONFIG_FILE, TEMPLATE_FILE)
"""Files that can have a chat template."""

TEXT_FILES = (TOKENISER, *CHAT_FILES, GENERATION)
"""Files that models of text can have: how they read."""


@dataclass(frozen=True, slots=True)
class CheckedFolder:
    """A folder with exactly one model, according to the headers of its files.

    `sources` has the stored tensor for each tensor of the family, and for a tied head if it is
    stored separately. `stored` are all tensors of all `files`.
    """

    files: FolderFiles
    family: PublishedFamily
    sources: Mapping[str, tuple[StoredTensor, PublishedTensor]]
    stored: tuple[StoredTensor, ...]
    has_preprocessor: bool = False


def check_folder(folder: Path, within: Path | None = None) -> CheckedFolder:
    """Check a folder of this machine; see `check_files`.

    A file that is outside the folder `within` when it is opened is rejected.
    """
    return check_files(PlainFolder(folder, within))


def check_files(files: FolderFiles) -> CheckedFolder:
    """Check the configuration and the names, shapes and types of all tensors.

    The numbers are not read.

    Raises:
        BadModelFolder: the files are not a valid model; the message names the file or tensor.
    """
    with _readable("The folder"):
        description = read_description(files)
        names = weight_files(files)
    stored = _all_tensors(files, names)
    family = description.model({tensor.name: tensor.shape for tensor in stored})
    if family.image() is None:
        check_end(CONFIG, description.config, family.shape().vocabulary)
    image = family.image()
    preprocessor = None if image is None else read_preprocessor(files, image)
    family = family.with_preprocessor(preprocessor)
    by_name = _without_prefix(family, stored)
    sources = {
        name: (by_name[source.name], source) for name, source in _wanted(family, by_name).items()
    }
    shape = family.shape()
    for name, (tensor, source) in sources.items():
        _check_header(tensor, source.stored_shape(shape.tensors[shape.tied.get(name, name)].shape))
    return CheckedFolder(files, family, sources, stored, preprocessor is not None)


def fingerprint(checked: CheckedFolder) -> tuple[ModelFile, ...]:
    """Return digests that identify the model without reading all of it.

    The digest of `config.json` covers every byte, and so does that of `preprocessor_config.json`
    for a model of images. The digest of a file of weights covers its header and up to 4 KiB from
    the middle of each tensor, all of which differ after further training. A `tokenizer.json` and
    the files with a chat template are among the files if there are any, with all of their bytes.

    Raises:
        BadModelFolder: a file cannot be read.
    """
    files = checked.files
    listed = [_whole_file(files, CONFIG, LARGEST_JSON)]
    for name in sorted({tensor.file.name for tensor in checked.stored}):
        with _readable(name), files.opened(name) as file:
            digest = _digest(file, [one for one in checked.stored if one.file.name == name])
            listed.append(ModelFile(name=name, size=file.seek(0, os.SEEK_END), digest=digest))
    if checked.has_preprocessor:
        listed.append(_whole_file(files, PREPROCESSOR, LARGEST_JSON))
    present = files.names()
    texts = [name for name in TEXT_FILES if name in present]
    listed += [_whole_file(files, name, LARGEST_TOKENISER) for name in texts]
    return tuple(listed)


def read_tokeniser_file(folder: Path, within: Path | None = None) -> bytes:
    """Return the content of `tokenizer.json`.

    Raises:
        BadModelFolder: the file is missing, too large or cannot be read.
    """
    return _whole_content(folder, TOKENISER, within)


def read_text_file(folder: Path, name: str, within: Path | None = None) -> bytes:
    """Return the content of a file that decides how texts are read.

    Raises:
        BadModelFolder: the file is missing, too large or cannot be read.
    """
    return _whole_content(folder, name, within)


def _whole_content(folder: Path, name: str, within: Path | None) -> bytes:
    content = _start_of(PlainFolder(folder, within), name, LARGEST_TOKENISER + 1)
    _check_size(name, len(content), LARGEST_TOKENISER)
    return content


def _start_of(files: FolderFiles, name: str, size: int) -> bytes:
    with _readable(name), files.opened(name) as file:
        return file.read(size)


def _whole_file(files: FolderFiles, name: str, largest: int) -> ModelFile:
    """Return a file that is known by a digest of all its bytes."""
    with _readable(name), files.opened(name) as file:
        size = file.seek(0, os.SEEK_END)
        _check_size(name, size, largest)
        return ModelFile(name=name, size=size, digest=files.digest(name))


def _check_size(name: str, size: int, largest: int) -> None:
    if size > largest:
        raise BadModelFolder(f"{name} has more than {largest:,} bytes, the limit.")


def _digest(file: BinaryIO, tensors: Sequence[StoredTensor]) -> str:
    # The checked header is between its length and the first tensor.
    file.seek(LENGTH_BYTES)
    begin = min(tensor.start for tensor in tensors)
    digest = hashlib.sha256(file.read(begin - LENGTH_BYTES))
    for tensor in sorted(tensors, key=lambda tensor: tensor.start):
        begin = max(tensor.start, (tensor.start + tensor.stop - SAMPLE_BYTES) // 2)
        file.seek(begin)
        digest.update(file.read(min(SAMPLE_BYTES, tensor.stop - begin)))
    return digest.hexdigest()


def _checked_file(files: FolderFiles, name: str) -> WeightsFile:
    """Return a file of weights by its header."""
    with _readable(name), files.opened(name) as file:
        try:
            return read_header_of(file, files.path(name))
        except BadWeightsFile as error:
            raise BadModelFolder(str(error)) from error


def _all_tensors(files: FolderFiles, names: Iterable[str]) -> tuple[StoredTensor, ...]:
    """Return the tensors of all files, with the limit of a single file."""
    stored: list[StoredTensor] = []
    for name in names:
        stored.extend(_checked_file(files, name).tensors)
        if len(stored) > MOST_TENSORS:
            raise BadModelFolder(
                f"The files up to {name} have {len(stored):,} tensors. The limit is "
                f"{MOST_TENSORS:,}."
            )
    return tuple(stored)


def _without_prefix(
    family: PublishedFamily, stored: Iterable[StoredTensor]
) -> dict[str, StoredTensor]:
    """Return the tensors by name without the family's prefix and buffers."""
    by_name: dict[str, StoredTensor] = {}
    for tensor in stored:
        short = tensor.name.removeprefix(family.prefix)
        if short in by_name:
            raise BadModelFolder(
                f"The tensor {tensor.name} of {tensor.file.name} occurs twice in the folder. "
                "Remove one of them."
            )
        if not short.endswith(family.buffers or ("\0",)):
            by_name[short] = tensor
    return by_name


def _wanted(
    family: PublishedFamily, stored: Mapping[str, StoredTensor]
) -> dict[str, PublishedTensor]:
    """Return the places of the family's tensors.

    A tied head can be stored in addition to the embedding.

    Raises:
        BadModelFolder: the folder lacks tensors or has others.
    """
    shape, places = family.shape(), family.published_tensors()
    doubles = {name for name in shape.tied if places[name].name in stored}
    wanted = {name: places[name] for name in (*shape.tensors, *sorted(doubles))}
    needed = {source.name for source in wanted.values()}
    missing, extra = needed - stored.keys(), stored.keys() - needed
    if missing or extra:
        raise BadModelFolder(
            f"The folder lacks the tensors {_some(missing)} of the {family.name} that its "
            f"{CONFIG} describes, and has the additional tensors {_some(extra)}. Its files must be "
            f"those of one model; {AGAIN}."
        )
    return wanted


def _some(names: set[str]) -> str:
    """Return the first few names for a message, shortened."""
    listed = [name[:200] for name in sorted(names)]
    shown = ", ".join(listed[:8]) or "(none)"
    return shown if len(listed) <= 8 else f"{shown} and {len(listed) - 8} more"


def _check_header(stored: StoredTensor, expected: tuple[int, ...]) -> None:
    if stored.shape != expected:
        raise BadModelFolder(
            f"{stored.name} has the shape {stored.shape} instead of {expected}, which {CONFIG} "
            f"describes. {stored.file.name} and {CONFIG} must be those of one model; {AGAIN}."
        )
    if stored.dtype not in WEIGHT_DTYPES:
        raise BadModelFolder(
            f"{stored.name} is stored as {stored.dtype}. Store it as one of {WEIGHT_DTYPES}."
        )


@contextmanager
def _readable(name: str) -> Generator[None]:
    """Raise `BadModelFolder` for files that cannot be read.

    The message does not contain their folder, which users need not see.
    """
    try:
        yield
    except OSError as error:
        raise BadModelFolder(unreadable(name, error)) from error
