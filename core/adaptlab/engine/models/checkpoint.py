"""Trained tensors as safetensors files, one for each selected replicate."""

import json
from collections.abc import Generator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from adaptlab.engine.models.plan import Plan
from adaptlab.errors import BadCheckpoint, BadWeightsFile
from adaptlab.plugins.registry import as_json
from adaptlab.plugins.shapes import ModelShape
from adaptlab.runs.events import Checkpoint, CheckpointWritten
from adaptlab.specs.resolved import spec_digest
from adaptlab.weights.weights_file import WEIGHT_DTYPES, StoredTensor, WeightsFile, read_header


def write_checkpoint(
    plan: Plan, tensors: Mapping[str, Tensor], seed: int, replicate: int, scratch: Path
) -> CheckpointWritten:
    """Write the tensors [*shape] of one replicate, with metadata."""
    kind = "base_model" if plan.method is None else "adapter"
    path = scratch / f"{kind}-{replicate}.safetensors"
    description = {
        "kind": kind,
        "seed": seed,
        "spec_digest": spec_digest(plan.spec),
        "family": as_json(plan.family),
        "method": None if plan.method is None else as_json(plan.method),
    }
    # One entry, because safetensors writes several in an order that differs from run to run.
    metadata = {"adaptlab": json.dumps(description, sort_keys=True)}
    save_file(each_alone(tensors), path, metadata)
    return CheckpointWritten(
        path=path,
        checkpoint=Checkpoint(
            replicate=replicate,
            seed=seed,
            kind=kind,
            parameters=sum(t.numel() for t in tensors.values()),
            tensors={name: tuple(t.shape) for name, t in tensors.items()},
        ),
    )


def each_alone(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors on the CPU, none of which shares memory with another.

    The file format refuses several views of one array, such as a matrix that the sites of a fused
    module share.
    """
    alone: dict[str, Tensor] = {}
    taken: set[int] = set()
    for name, tensor in tensors.items():
        whole = tensor.detach().cpu().contiguous()
        storage = whole.untyped_storage().data_ptr()
        alone[name] = whole.clone() if storage in taken else whole
        taken.add(storage)
    return alone


def read_tensors(path: Path, expected: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Read the tensors of a checkpoint, which must be exactly those expected.

    Names, dtypes and shapes are checked before any number is read.

    Raises:
        BadCheckpoint: if a tensor is missing, additional, of another shape, or not finite.
    """
    with checked_file(path) as header:
        _check_names(path, {tensor.name for tensor in header.tensors}, expected)
        for stored in header.tensors:
            check_stored(path, stored, expected[stored.name])
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in expected}
    for name, tensor in tensors.items():
        if not is_finite(tensor):
            raise BadCheckpoint(f"{path.name}: {name} holds values that are not finite.")
    return tensors


def is_finite(tensor: Tensor) -> bool:
    """Return True if every number is finite.

    It takes one pass and no temporary tensor, which a mapped one would otherwise be read into.
    """
    return not tensor.numel() or bool(torch.isfinite(torch.stack(torch.aminmax(tensor))).all())


@contextmanager
def checked_file(path: Path) -> Generator[WeightsFile]:
    """Yield the header of a file of ours.

    Raises `BadCheckpoint` if it is damaged, or if reading tensors in the block fails.
    """
    try:
        yield read_header(path)
    except BadWeightsFile as error:
        raise BadCheckpoint(str(error)) from error
    except (SafetensorError, OSError) as error:
        raise BadCheckpoint(f"{path.name} is not a whole safetensors file: {error}.") from error


def check_stored(path: Path, stored: StoredTensor, shape: tuple[int, ...]) -> None:
    """Raise `BadCheckpoint` unless a tensor has this shape and a float dtype."""
    if stored.shape != shape:
        raise BadCheckpoint(f"{path.name}: {stored.name} is {stored.shape} instead of {shape}.")
    if stored.dtype not in WEIGHT_DTYPES:
        raise BadCheckpoint(
            f"{path.name}: {stored.name} is stored as {stored.dtype}, not as one of "
            f"{WEIGHT_DTYPES}."
        )


def _check_names(path: Path, found: Set[str], expected: Mapping[str, tuple[int, ...]]) -> None:
    missing, extra = sorted(expected.keys() - found), sorted(found - expected.keys())
    if missing or extra:
        raise BadCheckpoint(
            f"{path.name} lacks {missing[:8] or 'nothing'} and has {extra[:8] or 'nothing'} "
            "beyond what the model declares."
        )


def read_bases(
    paths: tuple[Path, ...], shape: ModelShape, device: torch.device, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Read the weights [G, ...] of base replicates.

    A single file is shared (G = 1).
    """
    expected = {name: tensor.shape for name, tensor in shape.tensors.items()}
    loaded = {path: read_tensors(path, expected) for path in dict.fromkeys(paths)}
    copies = [loaded[path] for path in (paths if len(loaded) > 1 else paths[:1])]
    return {
        name: torch.stack([copy[name] for copy in copies]).to(device, dtype) for name in expected
    }
