"""The state of a training between two steps, complete and minimal.

Items come from counters, so the step number determines the next; there is no other source of
randomness.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from adaptlab.engine.models.checkpoint import check_stored, checked_file
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.tensors import Float
from adaptlab.engine.training.outcome import TrainingOutcome
from adaptlab.errors import BadCheckpoint
from adaptlab.specs.resolved import spec_digest
from adaptlab.weights.weights_file import WeightsFile

TENSORS = ("flat", "mean", "square", "window")
LISTS = ("live", "highest", "lowest", "waited")
COUNTERS = (*LISTS, "most", "parts", "recomputes", "step", "counted")


@dataclass(frozen=True)
class TrainingState:
    """The state of a training of R replicates, of which L still train.

    `flat` holds the weights of all replicates, final for those that have ended. AdamW's moments
    `mean` and `square`, and `window`, the summed losses since the last curve point, belong to the
    live replicates in order. With early stopping, so do `best`, `highest`, `lowest` and `waited`:
    the best weights, their metric and loss, and the validations since. A pass takes at most `most`
    replicates and each batch in `parts`; with `recomputes`, blocks are computed again in the
    backward pass. A search for tokens also has `between`, rows that need not be those of tokens,
    and uses the moments as it likes.
    """

    flat: Float[Tensor, "R N"]
    mean: Float[Tensor, "L N"]
    square: Float[Tensor, "L N"]
    window: Float[Tensor, "L"]
    between: Float[Tensor, "L N"] | None
    best: Float[Tensor, "L N"] | None
    live: tuple[int, ...]
    highest: tuple[float, ...]
    lowest: tuple[float, ...]
    waited: tuple[int, ...]
    most: int
    parts: int
    recomputes: bool
    step: int
    counted: int
    outcome: TrainingOutcome


def write_state(state: TrainingState, plan: Plan, scratch: Path) -> Path:
    """Write the state to `scratch` as safetensors, atomically."""
    names = _names(plan)
    tensors = {name: getattr(state, name).cpu().contiguous() for name in names}
    counters = {name: getattr(state, name) for name in COUNTERS}
    outcome = asdict(state.outcome)
    description = {**counters, "outcome": outcome, "spec_digest": spec_digest(plan.spec)}
    path = scratch / f"training-{state.step}.safetensors"
    partial = path.with_suffix(".partial")
    save_file(tensors, partial, {"adaptlab": json.dumps(description)})
    return partial.rename(path)


def _names(plan: Plan) -> tuple[str, ...]:
    """Return the names of the tensors in a state."""
    between = ("between",) if plan.method is not None and plan.method.is_search else ()
    best = () if plan.early_stopping is None else ("best",)
    return (*TENSORS, *between, *best)


class _Counters(BaseModel):
    """The state without its tensors; a loss may be infinite or None."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    live: tuple[int, ...]
    highest: tuple[float, ...] = ()
    lowest: tuple[float, ...]
    waited: tuple[int, ...]
    most: int = Field(ge=1)
    parts: int = Field(default=1, ge=1)
    recomputes: bool = False
    step: int = Field(ge=1)
    counted: int = Field(ge=0)
    outcome: TrainingOutcome
    spec_digest: str


def read_state(path: Path, plan: Plan, scalars: int) -> TrainingState:
    """Read a state that `write_state` wrote for the same spec.

    Counters, names and shapes are checked before any number is read. Numbers may be anything: a
    diverged replicate keeps its weights.

    Raises:
        BadCheckpoint: for any other file.
    """
    try:
        with checked_file(path) as header:
            counters_read = _Counters.model_validate_json(header.metadata["adaptlab"])
            _check_counters(path, counters_read, plan)
            names = _check_tensors(path, header, counters_read, plan, scalars)
            with safe_open(path, framework="pt") as file:
                tensors = {name: file.get_tensor(name).to(plan.device) for name in names}
    except KeyError as error:
        raise BadCheckpoint(f"{path.name} is not a saved training state.") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise BadCheckpoint(
            f"{path.name} is not a saved training state: {first['msg']} at {first['loc'][:3]}."
        ) from error
    best, between = tensors.pop("best", None), tensors.pop("between", None)
    counters = {name: getattr(counters_read, name) for name in COUNTERS}
    return TrainingState(
        **tensors, between=between, best=best, **counters, outcome=counters_read.outcome
    )


def _check_counters(path: Path, counters: _Counters, plan: Plan) -> None:
    if counters.spec_digest != spec_digest(plan.spec):
        raise BadCheckpoint(f"{path.name} is the state of a training of another spec.")
    live, steps = set(counters.live), plan.training.steps
    waiting = len(live) if plan.early_stopping is not None else 0
    is_valid = (
        len(live) == len(counters.live)
        and live <= set(range(plan.replicates))
        and len(counters.lowest) == len(counters.waited) == waiting
        and len(counters.highest) in (0, waiting)
        and counters.counted <= counters.step <= steps
        and plan.training.batch_size % counters.parts == 0
        and all(
            len(listed) == plan.replicates
            for listed in vars(counters.outcome).values()
            if listed is not None
        )
    )
    if not is_valid:
        raise BadCheckpoint(
            f"{path.name} is not a saved training state of {plan.replicates} replicates and "
            f"{steps} steps: its counters do not fit."
        )


def _check_tensors(
    path: Path, header: WeightsFile, counters: _Counters, plan: Plan, scalars: int
) -> tuple[str, ...]:
    """Return the tensors' names, after checking that these are stored."""
    names = _names(plan)
    stored = {tensor.name: tensor for tensor in header.tensors}
    if stored.keys() != set(names):
        raise BadCheckpoint(f"{path.name} is not a saved training state: it holds {[*stored][:8]}.")
    trained = len(counters.live)
    others = {"flat": (plan.replicates, scalars), "window": (trained,)}
    for name in names:
        check_stored(path, stored[name], others.get(name, (trained, scalars)))
    return names
