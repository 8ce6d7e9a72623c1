"""The state of a training between two steps: all that its future depends on, and nothing else.

Items come from counters, so the number of steps says which are next; there is no other source of
randomness.
"""

import json
from dataclasses import dataclass, fields
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from adaptlab.engine.plan import Plan
from adaptlab.errors import BadCheckpoint
from adaptlab.resolve import spec_digest

TENSORS = ("flat", "mean", "square", "window")


@dataclass(frozen=True)
class TrainingState:
    """Weights and AdamW's moments [R, N], losses since the last curve point [R], and counters."""

    flat: Tensor
    mean: Tensor
    square: Tensor
    window: Tensor
    step: int
    counted: int
    final_losses: tuple[float | None, ...]
    steps: tuple[int, ...]
    diverged: tuple[bool, ...]


def write_state(state: TrainingState, plan: Plan, scratch: Path) -> Path:
    """Write the state into `scratch` as safetensors; a file is either whole or not there."""
    counters = {f.name: getattr(state, f.name) for f in fields(state) if f.name not in TENSORS}
    description = {**counters, "spec_digest": spec_digest(plan.spec)}
    tensors = {name: getattr(state, name).cpu().contiguous() for name in TENSORS}
    path = scratch / f"training-{state.step}.safetensors"
    partial = path.with_suffix(".partial")
    save_file(tensors, partial, {"adaptlab": json.dumps(description)})
    return partial.rename(path)


def read_state(path: Path, plan: Plan, scalars: int) -> TrainingState:
    """A state that `write_state` wrote for the same spec; raises `BadCheckpoint` for any other."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in TENSORS}
            description = json.loads((file.metadata() or {})["adaptlab"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise BadCheckpoint(f"{path.name} is not a saved training state: {error}.") from error
    if description.pop("spec_digest") != spec_digest(plan.spec):
        raise BadCheckpoint(f"{path.name} is the state of a training of another spec.")
    if tensors["flat"].shape != (plan.replicates, scalars):
        raise BadCheckpoint(f"{path.name} holds tensors of another shape than the spec's.")
    lists = {name: tuple(description.pop(name)) for name in ("final_losses", "steps", "diverged")}
    return TrainingState(
        **{name: tensor.to(plan.device) for name, tensor in tensors.items()},
        **lists,
        **description,
    )
