"""Reports of the stand-ins for the engine: one small run.

Loaded by trainer processes, so nothing of torch or of the database is imported here.
"""

import json
import math
from typing import Protocol

from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import (
    AttentionPatterns,
    AttentionSummary,
    Checkpoint,
    Environment,
    Evaluation,
    Event,
    MetricPoint,
    Metrics,
    ReplicateResult,
)
from adaptlab.runs.reported_attention import NPY
from adaptlab.specs.resolved import readable
from adaptlab.specs.spec import ResolvedSpec

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


def replicates_of(spec: ResolvedSpec) -> tuple[ReplicateResult, ...]:
    """The replicates of a run with one trial, all selected and done."""
    return tuple(
        ReplicateResult(
            replicate=number,
            seed=seed,
            trial=0,
            **spec.training.trials[0].model_dump(),
            status="completed",
            selected=True,
            final_loss=0.5,
            validation_accuracy=None,
            steps=spec.training.steps,
        )
        for number, seed in enumerate(spec.seeds)
    )


def evaluation_of(spec: ResolvedSpec) -> Evaluation:
    """The first five samples of the first task right."""
    total = spec.evaluation_samples
    return Evaluation(
        replicate=0,
        seed=spec.seeds[0],
        task=spec.evaluation_tasks[0],
        split="test",
        correct=5,
        total=total,
        outcomes=(b"\xf8" + bytes(-(-total // 8) - 1)).hex(),
    )


def checkpoint_of(spec: ResolvedSpec, number: int = 0) -> Checkpoint:
    """The checkpoint of one seed, of the tensors that the spec leads to."""
    tensors = Expected.of(readable(spec)).tensors
    return Checkpoint(
        replicate=number,
        seed=spec.seeds[number],
        kind="adapter" if spec.method else "base_model",
        parameters=sum(map(math.prod, tensors.values())),
        tensors=dict(tensors),
    )


def weights_of(checkpoint: Checkpoint, note: str) -> bytes:
    """A checkpoint's file of zeros, with metadata, written without torch."""
    header: dict[str, object] = {"__metadata__": {"note": note}}
    begin = 0
    for name, shape in checkpoint.tensors.items():
        end = begin + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": (begin, end)}
        begin = end
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(begin)


def attention_of(spec: ResolvedSpec) -> tuple[AttentionPatterns, bytes] | None:
    """The base's attention on the first seed, and its file, or None."""
    maps = Expected.of(readable(spec)).maps
    if maps is None:
        return None
    shape = (maps.samples, maps.layers, maps.heads, maps.content, maps.content)
    figures = {"entropy": 1.0, "learned_mass": 0.0, "divergence": 0.0, "relative_deviation": 0.0}
    told = AttentionPatterns(
        replicate=0,
        seed=spec.seeds[0],
        source="base",
        shape=shape,
        learned_positions=0,
        target_start=maps.target_start,
        tokens=((0,) * maps.content,) * maps.samples,
        predictions=((1,) * maps.targets,) * maps.samples,
        summaries=tuple(
            AttentionSummary(layer=layer, head=head, **figures)
            for layer in range(maps.layers)
            for head in range(maps.heads)
        ),
    )
    header = f"{{'descr': '<f2', 'fortran_order': False, 'shape': {shape}, }}".encode()
    start = NPY + len(header).to_bytes(2, "little") + header
    return told, start + bytes(2 * math.prod(shape))
