"""The state of a training between two steps: all that its future depends on, and nothing else.

Items come from counters, so the number of steps says which are next; there is no other source of
randomness.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from adaptlab.engine.checkpoint import check_stored, checked_file
from adaptlab.engine.outcome import TrainingOutcome
from adaptlab.engine.plan import Plan
from adaptlab.errors import BadCheckpoint
from adaptlab.specs.resolved import spec_digest
from adaptlab.weights.weights_file import WeightsFile

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


class _Counters(BaseModel):
    """What a state says beside its tensors; a loss may be infinite or none at all."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    live: tuple[int, ...]
    lowest: tuple[float, ...]
    waited: tuple[int, ...]
    most: int = Field(ge=1)
    step: int = Field(ge=1)
    counted: int = Field(ge=0)
    outcome: TrainingOutcome
    spec_digest: str


def read_state(path: Path, plan: Plan, scalars: int) -> TrainingState:
    """A state that `write_state` wrote for the same spec; raises `BadCheckpoint` for any other.

    All that it says is checked before a number is read. The numbers may be anything: a replicate
    that diverged keeps what it diverged to.
    """
    try:
        with checked_file(path) as header:
            told = _Counters.model_validate_json(header.metadata["adaptlab"])
            _check_counters(path, told, plan)
            names = _check_tensors(path, header, told, plan, scalars)
            with safe_open(path, framework="pt") as file:
                tensors = {name: file.get_tensor(name).to(plan.device) for name in names}
    except KeyError as error:
        raise BadCheckpoint(f"{path.name} is not a saved training state.") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise BadCheckpoint(
            f"{path.name} is not a saved training state: {first['msg']} at {first['loc'][:3]}."
        ) from error
    best = tensors.pop("best", None)
    counters = {name: getattr(told, name) for name in (*LISTS, "most", "step", "counted")}
    return TrainingState(**tensors, best=best, **counters, outcome=told.outcome)


def _check_counters(path: Path, told: _Counters, plan: Plan) -> None:
    if told.spec_digest != spec_digest(plan.spec):
        raise BadCheckpoint(f"{path.name} is the state of a training of another spec.")
    live, steps = set(told.live), plan.training.steps
    waiting = len(live) if plan.training.early_stopping is not None else 0
    sound = (
        len(live) == len(told.live)
        and live <= set(range(plan.replicates))
        and len(told.lowest) == len(told.waited) == waiting
        and told.counted <= told.step <= steps
        and all(len(listed) == plan.replicates for listed in vars(told.outcome).values())
    )
    if not sound:
        raise BadCheckpoint(
            f"{path.name} is not a saved training state of {plan.replicates} replicates and "
            f"{steps} steps: its counters do not fit."
        )


def _check_tensors(
    path: Path, header: WeightsFile, told: _Counters, plan: Plan, scalars: int
) -> tuple[str, ...]:
    """The names of the tensors, which are there in their shapes and nothing besides."""
    names = TENSORS if plan.training.early_stopping is None else (*TENSORS, "best")
    stored = {tensor.name: tensor for tensor in header.tensors}
    if stored.keys() != set(names):
        raise BadCheckpoint(f"{path.name} is not a saved training state: it holds {[*stored][:8]}.")
    trained = len(told.live)
    others = {"flat": (plan.replicates, scalars), "window": (trained,)}
    for name in names:
        check_stored(path, stored[name], others.get(name, (trained, scalars)))
    return names
