"""The state of a training between two steps: all that its future depends on, and nothing else.

Items come from counters, so the number of steps says which are next; there is no other source of
randomness.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from adaptlab.engine.outcome import TrainingOutcome
from adaptlab.engine.plan import Plan
from adaptlab.errors import BadCheckpoint
from adaptlab.resolve import spec_digest

TENSORS = ("flat", "mean", "square", "window")
LISTS = ("live", "lowest", "waited")


@dataclass(frozen=True)
class TrainingState:
    """Where a training of R replicates stands, L of which are still trained.

    `flat` holds the weights of all [R, N], what the others have become among them; AdamW's moments
    `mean` and `square` [L, N] and the losses since the last curve point `window` [L] are of the
    `live` replicates in their order. With early stopping, `best` [L, N], `lowest` and `waited` are
    their best weights, the loss of these and the validations since. A pass takes `most` replicates.
    """

    flat: Tensor
    mean: Tensor
    square: Tensor
    window: Tensor
    best: Tensor | None
    live: tuple[int, ...]
    lowest: tuple[float, ...]
    waited: tuple[int, ...]
    most: int
    step: int
    counted: int
    outcome: TrainingOutcome


def write_state(state: TrainingState, plan: Plan, scratch: Path) -> Path:
    """Write the state into `scratch` as safetensors; a file is either whole or not there."""
    names = TENSORS if state.best is None else (*TENSORS, "best")
    tensors = {name: getattr(state, name).cpu().contiguous() for name in names}
    counters = {name: getattr(state, name) for name in (*LISTS, "most", "step", "counted")}
    outcome = asdict(state.outcome)
    description = {**counters, "outcome": outcome, "spec_digest": spec_digest(plan.spec)}
    path = scratch / f"training-{state.step}.safetensors"
    partial = path.with_suffix(".partial")
    save_file(tensors, partial, {"adaptlab": json.dumps(description)})
    return partial.rename(path)


def read_state(path: Path, plan: Plan, scalars: int) -> TrainingState:
    """A state that `write_state` wrote for the same spec; raises `BadCheckpoint` for any other."""
    wants_best = plan.spec.training.early_stopping is not None
    names = (*TENSORS, "best") if wants_best else TENSORS
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name).to(plan.device) for name in names}
            description = json.loads((file.metadata() or {})["adaptlab"])
        counters = {name: description[name] for name in ("most", "step", "counted")}
        lists = {name: tuple(description[name]) for name in LISTS}
        outcome = TrainingOutcome(**description["outcome"])
        digest = description["spec_digest"]
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise BadCheckpoint(f"{path.name} is not a saved training state: {error}.") from error
    if digest != spec_digest(plan.spec):
        raise BadCheckpoint(f"{path.name} is the state of a training of another spec.")
    trained = len(lists["live"])
    others = {"flat": (plan.replicates, scalars), "window": (trained,)}
    shapes = {name: others.get(name, (trained, scalars)) for name in names}
    if any(tensors[name].shape != shapes[name] for name in names):
        raise BadCheckpoint(f"{path.name} holds tensors of another shape than the spec's.")
    best = tensors.pop("best", None)
    return TrainingState(**tensors, best=best, **lists, **counters, outcome=outcome)
