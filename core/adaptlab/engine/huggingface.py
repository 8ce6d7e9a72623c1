"""Weights of published models, from safetensors files in the Hugging Face layout."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from adaptlab.errors import BadModelFolder
from adaptlab.huggingface import PublishedFamily, PublishedTensor, read_family, weight_files

DTYPES = ("F64", "F32", "F16", "BF16")
HEAD = "unembed.weight"


@dataclass(frozen=True)
class PublishedModel:
    """A published model under this project's names: tensors [*shape] as `family` declares them."""

    family: PublishedFamily
    tensors: Mapping[str, Tensor]


@dataclass(frozen=True)
class _Stored:
    """A tensor in an open file; Any, because the library's file handles have no types."""

    file: Any
    name: str

    def shape(self) -> tuple[int, ...]:
        return tuple(self.file.get_slice(self.name).get_shape())

    def dtype(self) -> str:
        return str(self.file.get_slice(self.name).get_dtype())

    def load(self) -> Tensor:
        return self.file.get_tensor(self.name)


def load_folder(folder: Path, dtype: torch.dtype = torch.float32) -> PublishedModel:
    """The model in a folder, or `BadModelFolder` with the name of what is wrong.

    Names, shapes and types of all tensors are checked in the files' headers before any is read.
    """
    family = read_family(folder)
    with ExitStack() as stack:
        stored: dict[str, _Stored] = {}
        for path in weight_files(folder):
            _add(family, stack, path, stored)
        wanted = _wanted(family, stored)
        shapes = family.shape().tensors
        for name, source in wanted.items():
            own = shapes[family.shape().tied.get(name, name)]
            _check_header(stored[source.name], source.stored_shape(own.shape))
        tensors = {name: _loaded(stored[s.name], s, dtype) for name, s in wanted.items()}
    _check_tied(tensors, family.shape().tied)
    return PublishedModel(family, {name: tensors[name] for name in shapes})


def _add(family: PublishedFamily, stack: ExitStack, path: Path, stored: dict[str, _Stored]) -> None:
    """Take note of the tensors of one file, under their names without the prefix."""
    try:
        file = stack.enter_context(safe_open(path, framework="pt"))
        names: list[str] = list(file.keys())
    except (SafetensorError, OSError) as error:
        raise BadModelFolder(f"{path.name} is not a whole safetensors file: {error}.") from error
    for name in names:
        short = name.removeprefix(family.prefix)
        if short in stored:
            raise BadModelFolder(f"The tensor {name} of {path.name} is there twice.")
        if not short.endswith(family.buffers or ("\0",)):
            stored[short] = _Stored(file, name)


def _wanted(family: PublishedFamily, stored: Mapping[str, _Stored]) -> dict[str, PublishedTensor]:
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
    """Names for a message, the first few of many."""
    listed = sorted(names)
    shown = ", ".join(listed[:8]) or "(none)"
    return shown if len(listed) <= 8 else f"{shown} and {len(listed) - 8} more"


def _check_header(stored: _Stored, expected: tuple[int, ...]) -> None:
    if stored.shape() != expected:
        raise BadModelFolder(f"{stored.name} is {stored.shape()} instead of {expected}.")
    if stored.dtype() not in DTYPES:
        raise BadModelFolder(
            f"{stored.name} is stored as {stored.dtype()}; give weights in one of {DTYPES}."
        )


def _loaded(stored: _Stored, source: PublishedTensor, dtype: torch.dtype) -> Tensor:
    """One tensor in the project's layout and dtype."""
    tensor = stored.load()
    tensor = tensor.T if source.transposed else tensor
    tensor = tensor.chunk(source.parts)[source.part].to(dtype, copy=True).contiguous()
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
