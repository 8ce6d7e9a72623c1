"""Mutated safetensors files at every door.

Run `python -m tests.security.mutate_safetensors --count 20000`.

A file is either refused with an error that names it, or read as an independent reader reads it,
with every number finite where weights have to be.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import torch
from safetensors.torch import save_file
from tests.folders import WEIGHTS, a_model_folder
from tests.making import a_pretrain_spec, a_resolved_job
from tests.security.safetensors_mutations import mutated, parts_of

from adaptlab.engine.kernels.memory import forget_peak, peak_bytes
from adaptlab.engine.models.checkpoint import read_tensors
from adaptlab.engine.models.huggingface import load_folder
from adaptlab.engine.models.plan import make_plan
from adaptlab.engine.training.outcome import TrainingOutcome
from adaptlab.engine.training.training_state import TrainingState, read_state, write_state
from adaptlab.errors import BadCheckpoint, BadModelFolder

Tensors = Mapping[str, torch.Tensor]
CPU = torch.device("cpu")
MOST_BYTES = 256 * 2**20
LONGEST_REFUSAL = 4000  # letters; the eight first names of missing and of extra tensors fit
NUMPY = {"F32": "<f4", "F64": "<f8"}


@dataclass
class Door:
    """A way in which a file is read: its place, content and reader."""

    name: str
    place: Path
    sound: bytes
    read: Callable[[], Tensors]
    finite: bool = True


@dataclass
class Findings:
    """What became of the files, and the most that one of them cost."""

    outcomes: Counter[str] = field(default_factory=Counter[str])
    slowest: float = 0.0
    slowest_on_processor: float = 0.0
    most_bytes: int = 0
    longest_refusal: int = 0


def run(count: int, seed: int, folder: Path) -> Findings:
    """Try that many files; raise errors that are no refusals."""
    doors = (a_checkpoint(folder), a_model(folder), a_state(folder))
    random, found = Random(seed), Findings()
    for door in doors:
        assert door.read(), f"{door.name} reads the sound file"
    forget_peak(CPU)
    before = peak_bytes(CPU)
    for number in range(count):
        door = doors[number % len(doors)]
        content = mutated(random, door.sound)
        door.place.write_bytes(content)
        try_one(door, content, found)
    found.most_bytes = peak_bytes(CPU) - before
    assert found.longest_refusal < LONGEST_REFUSAL, "a message that nobody can read"
    assert found.most_bytes <= MOST_BYTES, f"{found.most_bytes} bytes more were held"
    return found


def try_one(door: Door, content: bytes, found: Findings) -> None:
    begin, begin_on_processor = time.perf_counter(), time.process_time()
    try:
        tensors = door.read()
    except (BadCheckpoint, BadModelFolder) as refused:
        found.outcomes[f"{door.name}: refused"] += 1
        found.longest_refusal = max(found.longest_refusal, len(str(refused)))
    else:
        found.outcomes[f"{door.name}: read"] += 1
        check(tensors, content, door)
    took = time.process_time() - begin_on_processor
    found.slowest_on_processor = max(found.slowest_on_processor, took)
    found.slowest = max(found.slowest, time.perf_counter() - begin)


def check(tensors: Tensors, content: bytes, door: Door) -> None:
    """Hold what was read against the bytes, by numpy alone."""
    if door.finite:
        assert all(np.isfinite(tensor.numpy()).all() for tensor in tensors.values())
    header, numbers = parts_of(content)
    for name, tensor in tensors.items():
        if name not in header:
            continue  # a model folder's tensors have names of our own
        told = header[name]
        assert list(tensor.shape) == told["shape"]
        start, stop = told["data_offsets"]
        expected = np.frombuffer(numbers[start:stop], NUMPY[told["dtype"]])
        assert np.array_equal(tensor.numpy().ravel(), expected, equal_nan=True)


def a_checkpoint(folder: Path) -> Door:
    shapes = {"blocks.0.attn.input": (2, 16), "blocks.1.attn.input": (2, 16), "bias": (3,)}
    place = folder / "adapter.safetensors"
    generator = torch.Generator().manual_seed(1)
    tensors = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    save_file(tensors, place, {"adaptlab": '{"kind": "adapter"}'})
    return Door("checkpoint", place, place.read_bytes(), lambda: read_tensors(place, shapes))


def a_model(folder: Path) -> Door:
    place = a_model_folder(folder / "model") / WEIGHTS

    def read() -> Tensors:
        return load_folder(place.parent).tensors

    return Door("model folder", place, place.read_bytes(), read)


def a_state(folder: Path) -> Door:
    plan = make_plan(a_resolved_job(a_pretrain_spec()), "cpu")
    scalars = plan.spec.budget.trainable_parameters
    trained = torch.zeros(plan.replicates, scalars)
    state = TrainingState(
        flat=trained + 1,
        mean=trained.clone(),
        square=trained,
        window=torch.zeros(plan.replicates),
        between=None,
        best=None,
        live=tuple(range(plan.replicates)),
        highest=(),
        lowest=(),
        waited=(),
        most=plan.replicates,
        parts=1,
        recomputes=False,
        step=2,
        counted=1,
        outcome=TrainingOutcome.untrained(plan.replicates),
    )
    place = write_state(state, plan, folder)

    def read() -> Tensors:
        found = read_state(place, plan, scalars)
        return {name: getattr(found, name) for name in ("flat", "mean", "square", "window")}

    return Door("training state", place, place.read_bytes(), read, finite=False)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="adaptlab-mutated-") as folder:
        begin = time.perf_counter()
        found = run(given.count, given.seed, Path(folder))
        seconds = time.perf_counter() - begin
    for outcome, times in sorted(found.outcomes.items()):
        print(f"{outcome:<28} {times:>7}")
    print(f"{given.count} files, seed {given.seed}: no crash, {seconds:.0f} s in all")
    clock, processor = 1000 * found.slowest, 1000 * found.slowest_on_processor
    print(
        f"the slowest took {clock:.0f} ms, {processor:.0f} ms of the processor (at most a second)"
    )
    print(f"peak memory grew by {found.most_bytes / 2**20:.0f} MiB (at most {MOST_BYTES >> 20})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
