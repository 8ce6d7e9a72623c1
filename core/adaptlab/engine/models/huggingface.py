"""Weights of published models in the Hugging Face layout."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from adaptlab.engine.models.checkpoint import is_finite
from adaptlab.errors import BadModelFolder
from adaptlab.weights.huggingface import PublishedFamily
from adaptlab.weights.model_folder import CheckedFolder, check_folder

CPU = torch.device("cpu")


@dataclass(frozen=True)
class PublishedModel:
    """A published model, its tensors [*shape] as `family` declares them."""

    family: PublishedFamily
    tensors: Mapping[str, Tensor]


def load_folder(folder: Path, dtype: torch.dtype = torch.float32) -> PublishedModel:
    """Load the model in a folder.

    Names, shapes and dtypes of all tensors are checked in the files' headers before any is read.

    Raises:
        BadModelFolder: with the name of the file, field or tensor that is wrong.
    """
    return load_checked(check_folder(folder), dtype)


def load_checked(
    checked: CheckedFolder, dtype: torch.dtype = torch.float32, device: torch.device = CPU
) -> PublishedModel:
    """Load the model in a checked folder, and read all of its numbers.

    Raises:
        BadModelFolder: a number is not finite, or a stored head is not the tied one.
    """
    shape = checked.family.shape()
    tensors = mapped_tensors(checked, checked.sources, dtype, device)
    for name, tensor in tensors.items():
        if not is_finite(tensor):
            stored, _ = checked.sources[name]
            raise BadModelFolder(f"{stored.name} holds values that are not finite in {dtype}.")
    _check_tied(tensors, shape.tied)
    return PublishedModel(checked.family, {name: tensors[name] for name in shape.tensors})


def mapped_tensors(
    checked: CheckedFolder, names: Iterable[str], dtype: torch.dtype, device: torch.device = CPU
) -> dict[str, Tensor]:
    """Return tensors [*shape] of a checked folder; see `each_mapped`."""
    return dict(each_mapped(checked, names, dtype, device))


def each_mapped(
    checked: CheckedFolder, names: Iterable[str], dtype: torch.dtype, device: torch.device = CPU
) -> Iterator[tuple[str, Tensor]]:
    """Yield tensors [*shape] of a checked folder in adaptlab's layout.

    On the CPU, a tensor that is stored in `dtype` and not transposed is a view of the mapped file:
    its bytes are read when they are first used, and processes share them. Others are converted.

    Raises:
        BadModelFolder: a file cannot be opened.
    """
    shape = checked.family.shape()
    sources = {name: checked.sources[name] for name in names}
    with ExitStack() as stack:
        files = {path: _opened(stack, path) for path in {s.file for s, _ in sources.values()}}
        for name, (stored, source) in sources.items():
            whole = files[stored.file].get_tensor(stored.name)
            part = source.part_of(whole, shape.rows_of(name))
            yield name, part.contiguous().to(device, dtype)


def _opened(stack: ExitStack, path: Path) -> Any:  # the library's file handles have no types
    try:
        # Mapped, not read.
        return stack.enter_context(safe_open(path, framework="pt"))
    except (SafetensorError, OSError) as error:
        raise BadModelFolder(f"{path.name} was changed while it was read.") from error


def _check_tied(tensors: Mapping[str, Tensor], tied: Mapping[str, str]) -> None:
    for double, name in tied.items():
        if double in tensors and not torch.equal(tensors[double], tensors[name]):
            raise BadModelFolder(
                "config.json says tie_word_embeddings, but the stored head differs from the "
                "embedding; set it to false."
            )
