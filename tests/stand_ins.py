"""What the stand-ins for the engine report: the same small run, told in the words of the engine.

Loaded by trainer processes, so nothing of torch or of the database is imported here.
"""

from typing import Literal, Protocol

from adaptlab.results import (
    Checkpoint,
    Environment,
    Evaluation,
    Event,
    MetricPoint,
    Metrics,
    ReplicateResult,
)
from adaptlab.spec import ResolvedSpec

LOSS = "train_loss"
ENVIRONMENT = Environment(
    device="cpu",
    precision="float32",
    compiled=False,
    threads=1,
    torch_version="none",
    code_version="0",
    python_version="3",
    platform="test",
)


class Observer(Protocol):
    """What the trainer gives a run to speak through."""

    def emit(self, event: Event) -> None: ...
    def command(self) -> str: ...


def loss_at(step: int, loss: float | None = 0.5) -> Metrics:
    """One point of the training loss of the only replicate."""
    return Metrics(points=(MetricPoint(replicate=0, name=LOSS, step=step, value=loss),))


def replicate_of(spec: ResolvedSpec) -> ReplicateResult:
    """The only replicate of a run, selected, done with all of its steps."""
    return ReplicateResult(
        replicate=0,
        seed=spec.seeds[0],
        trial=0,
        learning_rate=spec.training.learning_rates[0],
        weight_decay=0.0,
        initial_scale=1.0,
        status="completed",
        selected=True,
        final_loss=0.5,
        validation_accuracy=None,
        steps=spec.training.steps,
    )


def evaluation_of(spec: ResolvedSpec) -> Evaluation:
    """Five of eight samples of the first task right."""
    return Evaluation(
        replicate=0,
        seed=spec.seeds[0],
        task=spec.evaluation_tasks[0],
        split="test",
        correct=5,
        total=8,
        outcomes="f8",
    )


def checkpoint_of(kind: Literal["base_model", "adapter"]) -> Checkpoint:
    """A checkpoint of one tensor of two scalars."""
    return Checkpoint(replicate=0, seed=0, kind=kind, parameters=2, tensors={"a": (2,)})
