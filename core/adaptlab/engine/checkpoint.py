"""Trained tensors as safetensors files, one for each selected replicate."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from adaptlab.engine.plan import Plan
from adaptlab.errors import BadCheckpoint
from adaptlab.resolve import spec_digest
from adaptlab.results import Checkpoint, CheckpointWritten
from adaptlab.shapes import ModelShape


def write_checkpoint(
    plan: Plan, tensors: Mapping[str, Tensor], seed: int, replicate: int, scratch: Path
) -> CheckpointWritten:
    """Write the tensors [*shape] of one replicate with what is needed to use them again."""
    kind = "base_model" if plan.method is None else "adapter"
    path = scratch / f"{kind}-{replicate}.safetensors"
    description = {
        "kind": kind,
        "seed": seed,
        "spec_digest": spec_digest(plan.spec),
        "family": plan.spec.family,
        "method": None if plan.method is None else plan.method.model_dump(mode="json"),
    }
    # One entry, because safetensors writes several in an order that differs from run to run.
    metadata = {"adaptlab": json.dumps(description, sort_keys=True)}
    save_file({name: t.cpu().contiguous() for name, t in tensors.items()}, path, metadata)
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


def read_tensors(path: Path, expected: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """The tensors of a checkpoint; raises `BadCheckpoint` unless they are exactly the expected."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise BadCheckpoint(f"{path.name} is not a whole safetensors file: {error}.") from error
    missing, extra = expected.keys() - tensors.keys(), tensors.keys() - expected.keys()
    if missing or extra:
        raise BadCheckpoint(
            f"{path.name} lacks {sorted(missing) or 'nothing'} and has {sorted(extra) or 'nothing'}"
            " beyond what the model declares."
        )
    for name, tensor in tensors.items():
        if tuple(tensor.shape) != expected[name]:
            raise BadCheckpoint(f"{name} is {tuple(tensor.shape)} instead of {expected[name]}.")
        if not torch.isfinite(tensor).all():
            raise BadCheckpoint(f"{name} holds values that are not finite.")
    return tensors


def read_bases(
    paths: tuple[Path, ...], shape: ModelShape, device: torch.device, dtype: torch.dtype
) -> dict[str, Tensor]:
    """The weights [G, ...] of base replicates, one file each; one file alone is shared (G = 1)."""
    expected = {name: tensor.shape for name, tensor in shape.tensors.items()}
    loaded = {path: read_tensors(path, expected) for path in dict.fromkeys(paths)}
    copies = [loaded[path] for path in (paths if len(loaded) > 1 else paths[:1])]
    return {
        name: torch.stack([copy[name] for copy in copies]).to(device, dtype) for name in expected
    }
