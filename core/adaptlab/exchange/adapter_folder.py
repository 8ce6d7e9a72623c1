"""A PEFT folder on one machine, and the files that it must still have."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from adaptlab.errors import BadAdapter, BadModelFolder, BadWeightsFile
from adaptlab.exchange.peft_members import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from adaptlab.exchange.plugins import Numbers
from adaptlab.weights.folder_files import FolderFiles, PlainFolder
from adaptlab.weights.huggingface import LARGEST_JSON, PICKLES, json_object
from adaptlab.weights.model_file import ModelFile
from adaptlab.weights.numbers import numbers
from adaptlab.weights.placed_folder import PlacedFolder
from adaptlab.weights.weights_file import (
    LARGEST_HEADER,
    LENGTH_BYTES,
    WEIGHT_DTYPES,
    StoredTensor,
    read_header_in,
)

LARGEST_ADAPTER = 2**28
"""Bytes of an adapter in float32, which is converted in memory; as for an export."""
LARGEST_FILE = 2 * LARGEST_ADAPTER + LENGTH_BYTES + LARGEST_HEADER
"""Bytes of the file: numbers of 64 bits are halved."""


@dataclass(frozen=True, slots=True)
class AdapterFolder:
    """The content of a PEFT folder, with digests that identify it."""

    config: Mapping[str, object]
    tensors: Mapping[str, Numbers] = field(repr=False)
    files: tuple[ModelFile, ...]
    dtypes: frozenset[str]
    """The types in which the tensors are stored."""


def read_adapter(folder: Path, within: Path | None = None) -> AdapterFolder:
    """Read a folder of this machine; see `read_adapter_files`.

    A file that is outside the folder `within` when it is opened is rejected.
    """
    return read_adapter_files(PlainFolder(folder, within))


def read_adapter_files(files: FolderFiles) -> AdapterFolder:
    """Read `adapter_config.json` and `adapter_model.safetensors`.

    Nothing is unpickled.

    Raises:
        BadAdapter: a file is missing, damaged or too large, or numbers are not finite.
    """
    text = _content(files, ADAPTER_CONFIG, LARGEST_JSON + 1)
    try:
        config = json_object(ADAPTER_CONFIG, text)
    except BadModelFolder as error:
        raise BadAdapter(f"{error} Save the adapter again with save_pretrained.") from error
    content = _content(files, ADAPTER_WEIGHTS, LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise _too_large()
    tensors, dtypes = _tensors(content)
    read = {ADAPTER_CONFIG: text, ADAPTER_WEIGHTS: content}
    return AdapterFolder(config, tensors, tuple(_file(*file) for file in read.items()), dtypes)


def read_placed(folder: PlacedFolder) -> AdapterFolder:
    """Read a folder, if it is still the one that was submitted.

    Raises:
        BadAdapter: a file is missing, cannot be read or has changed.
    """
    try:
        present = read_adapter(folder.path, folder.within)
    except BadAdapter as error:
        raise _changed(folder, str(error)) from error
    if changes := folder.changes(present.files):
        raise _changed(folder, changes)
    return present


def _changed(folder: PlacedFolder, details: str) -> BadAdapter:
    return BadAdapter(
        f"The folder {folder.name} is not as it was when the job was created. {details} "
        "Restore it and retry the job, or submit the adapter again."
    )


def _content(files: FolderFiles, name: str, most: int) -> bytes:
    """Return the first `most` bytes of a file."""
    try:
        with files.opened(name) as file:
            return file.read(most)
    except FileNotFoundError as error:
        raise BadAdapter(_missing(files, name)) from error
    except OSError as error:
        # The message does not contain the folder, which users need not see.
        raise BadAdapter(f"{name} cannot be read: {error.strerror or error}.") from error


def _missing(files: FolderFiles, name: str) -> str:
    pickles = [entry for entry in files.names() if entry.endswith(PICKLES)]
    if name == ADAPTER_WEIGHTS and pickles:
        return unread_pickle(pickles[0])
    return (
        f"The folder has no {name}. Name a folder that save_pretrained of a PeftModel has "
        "written, with its whole content."
    )


def unread_pickle(name: str) -> str:
    """Return the refusal of a pickled file."""
    return (
        f"{name} is not read, because a file of this type can contain code that runs when it is "
        f"loaded. Load the adapter in PEFT and save it as {ADAPTER_WEIGHTS}, with "
        "save_pretrained(…, safe_serialization=True)."
    )


def _tensors(content: bytes) -> tuple[dict[str, Numbers], frozenset[str]]:
    """Return the tensors in float32, and their types in the file."""
    path = Path(ADAPTER_WEIGHTS)
    try:
        header = read_header_in(content[: LENGTH_BYTES + LARGEST_HEADER], len(content), path)
    except BadWeightsFile as error:
        raise BadAdapter(f"{error} Save the adapter again.") from error
    for tensor in header.tensors:
        if tensor.dtype not in WEIGHT_DTYPES:
            raise BadAdapter(
                f"{ADAPTER_WEIGHTS}: {tensor.name} is stored as {tensor.dtype}. Store it as one of "
                f"{', '.join(WEIGHT_DTYPES)}."
            )
    if 4 * sum(math.prod(tensor.shape) for tensor in header.tensors) > LARGEST_ADAPTER:
        raise _too_large()
    dtypes = frozenset(tensor.dtype for tensor in header.tensors)
    return {tensor.name: _finite(tensor, content) for tensor in header.tensors}, dtypes


def _finite(tensor: StoredTensor, content: bytes) -> Numbers:
    with np.errstate(over="ignore"):  # from float64; infinity is refused below
        values = numbers(tensor, content[tensor.start : tensor.stop])
    if not np.isfinite(values).all():
        raise BadAdapter(
            f"{ADAPTER_WEIGHTS}: {tensor.name} has values that are not finite in float32. Train "
            "the adapter again with a lower learning rate."
        )
    return values


def _too_large() -> BadAdapter:
    return BadAdapter(
        f"{ADAPTER_WEIGHTS} needs more than {LARGEST_ADAPTER:,} bytes in float32, which is the "
        "limit for an adapter. Use an adapter of lower rank or for fewer modules."
    )


def _file(name: str, content: bytes) -> ModelFile:
    return ModelFile(name=name, size=len(content), digest=hashlib.sha256(content).hexdigest())
