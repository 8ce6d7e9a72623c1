"""Weights of published models in the Hugging Face layout."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from adaptlab.errors import BadModelFolder
from adaptlab.weights.huggingface import PublishedFamily, PublishedTensor
from adaptlab.weights.model_folder import CheckedFolder, StoredTensor, check_folder


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


def load_checked(checked: CheckedFolder, dtype: torch.dtype = torch.float32) -> PublishedModel:
    """Load the model in a checked folder; may raise `BadModelFolder`."""
    shape = checked.family.shape()
    with ExitStack() as stack:
        files = {path: _opened(stack, path) for path in {t.file for t in checked.stored}}
        tensors = {
            name: _loaded(files[stored.file], stored, source, shape.rows_of(name), dtype)
            for name, (stored, source) in checked.sources.items()
        }
    _check_tied(tensors, shape.tied)
    return PublishedModel(checked.family, {name: tensors[name] for name in shape.tensors})


def _opened(stack: ExitStack, path: Path) -> Any:  # the library's file handles have no types
    try:
        # Mapped, not read: a tensor's bytes are in memory once, when it is copied.
        return stack.enter_context(safe_open(path, framework="pt"))
    except (SafetensorError, OSError) as error:
        raise BadModelFolder(f"{path.name} was changed while it was read.") from error


def _loaded(
    file: Any, stored: StoredTensor, source: PublishedTensor, outputs: int, dtype: torch.dtype
) -> Tensor:
    """Read one tensor of `outputs` rows in adaptlab's layout and dtype."""
    tensor = file.get_tensor(stored.name)
    tensor = tensor.T if source.transposed else tensor
    tensor = tensor[source.start : source.start + outputs].to(dtype, copy=True).contiguous()
    if not torch.isfinite(tensor).all():
        raise BadModelFolder(f"{stored.name} holds values that are not finite in {dtype}.")
    return tensor


def _check_tied(tensors: Mapping[str, Tensor], tied: Mapping[str, str]) -> None:
    for double, name in tied.items():
        if double in tensors and not torch.equal(tensors[double], tensors[name]):
            raise BadModelFolder(
                "config.json says tie_word_embeddings, but the stored head differs from the "
                "embedding; set it to false."
            )
