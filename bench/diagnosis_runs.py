"""Real tiny trainings for the cases of diagnoses, and their file.

`python -m bench.diagnosis_runs [--only BASE …]` repeats the trainings on one thread: models of one
and two layers of width 32 on questions of five digits, each method at nine learning rates, with
three seeds, for S and for 2 S steps. The file is written after every run.
"""

import argparse
import hashlib
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from adaptlab.comparisons.diagnosis_evidence import Schedule, TrialEvidence, trial_evidence
from adaptlab.engine.observer import Command
from adaptlab.plugins.registry import as_json
from adaptlab.running.run import run
from adaptlab.runs.events import (
    AttentionCaptured,
    CheckpointWritten,
    Evaluated,
    Evaluation,
    Event,
    Metrics,
    ReplicatesDecided,
)
from adaptlab.runs.inputs import NOTHING_PLACED, LocalFile, PlacedInputs
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt, spec_digest
from adaptlab.specs.spec import AdaptSpec, PretrainSpec
from adaptlab.values import Value

STORED = Path(__file__).parent / "diagnosis_runs.json"
SEEDS = 3
STEPS = 500
RATES = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0, 10.0)
WEIGHT_RATES = (1e-4, 1e-3, 3e-3, 1e-2)
"""Learning rates of methods that train weights of the base."""
DIGITS = {"length": 5, "alphabet": 6}
UP, DOWN = ({"name": f"sort_{order}ending", **DIGITS} for order in ("asc", "desc"))
HISTOGRAM = {"name": "double_histogram", **DIGITS}
ADD = {"name": "add", "k": 1, **DIGITS}
MIXTURE = {"name": "mixture", "tasks": [UP, ADD]}
FAMILY = {"name": "minigpt", "layers": 1, "heads": 1, "width": 32}
BASES: dict[str, dict[str, object]] = {
    "ascending": {"task": UP, "family": FAMILY},
    "mixture": {"task": MIXTURE, "family": {**FAMILY, "heads": 2}, "steps": 2000},
    "two-layers": {"task": UP, "family": {**FAMILY, "layers": 2}},
    "unlearned": {"task": UP, "family": FAMILY, "steps": 60},
}
BASE_STEPS = 800
WEIGHTS = ("full_finetuning", "pinned_finetuning")
LORA = {"name": "lora", "sites": ["attn", "mlp"]}


class Measured(Value):
    """One method on one task and base: its configuration and results.

    `moved` is the selected trials' largest change of relative attention in the first layer.
    """

    base: str
    task: str
    run: str
    method: dict[str, object]
    parameters: int
    steps: int
    schedule: Schedule
    trials: tuple[TrialEvidence, ...]
    score: float
    moved: float | None


class Stored(Value):
    """All measurements; `bases` are accuracies on the base's task, by seed."""

    bases: dict[str, tuple[float, ...]]
    runs: tuple[Measured, ...]


class _Listening:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def command(self) -> Command:
        return "continue"


Wanted = tuple[dict[str, object], str, dict[str, object], int | None]
"""A task, a name, a method and its budget."""


def _wanted(base: str) -> Iterator[Wanted]:
    """Return a base's methods: references, then possible failures."""
    tasks = {"ascending": (DOWN, HISTOGRAM), "mixture": (ADD,)}.get(base, (DOWN,))
    for task in tasks:
        for name in WEIGHTS:
            yield task, name, {"name": name}, None
        for size in (576, 2304):
            yield task, f"lora-{size}", LORA, size
            yield task, f"adapter-{size}", {"name": "adapter", "after": ["attn", "mlp"]}, size
            for name in ("prefix_tuning", "soft_prompt"):
                yield task, f"{name}-{size}", {"name": name}, size
        yield task, "prefix_tuning-96", {"name": "prefix_tuning"}, 96
        yield task, "suffix_tuning-576", {"name": "suffix_tuning"}, 576
        yield task, "suffix_tuning-2304", {"name": "suffix_tuning"}, 2304
        for name in ("attention_bias", "head_only", "bitfit"):
            yield task, name, {"name": name}, 10_000


def _settings() -> Iterator[tuple[str, dict[str, object]]]:
    yield "", {"steps": STEPS, "schedule": "constant"}
    yield "-twice", {"steps": 2 * STEPS, "schedule": "constant"}
    yield "-cosine", {"steps": STEPS, "schedule": "cosine"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the requested bases and replace them in the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=BASES, default=list(BASES))
    parser.add_argument("--runs", nargs="*", help="names of runs; all without it")
    parser.add_argument("--into", type=Path, default=STORED)
    asked = parser.parse_args(arguments)
    stored = read(asked.into) if asked.into.exists() else Stored(bases={}, runs=())
    for base in asked.only:
        with tempfile.TemporaryDirectory() as folder:
            facts, files, own = _base(base, Path(folder))
            stored = stored.model_copy(update={"bases": {**stored.bases, base: own}})
            print(base, own, flush=True)
            for one in _runs(base, facts, files, asked.runs):
                kept = [old for old in stored.runs if _key(old) != _key(one)]
                stored = stored.model_copy(update={"runs": (*kept, one)})
                asked.into.write_text(stored.model_dump_json() + "\n")


def read(path: Path = STORED) -> Stored:
    """Read the stored measurements."""
    return Stored.model_validate_json(path.read_text())


def _key(one: Measured) -> tuple[str, str, str]:
    return one.base, one.task, one.run


def _base(
    name: str, folder: Path
) -> tuple[BaseModelFacts, tuple[LocalFile, ...], tuple[float, ...]]:
    description = BASES[name]
    spec = PretrainSpec.model_validate(
        {
            "name": name,
            "family": description["family"],
            "task": description["task"],
            "training": {"steps": description.get("steps", BASE_STEPS), "learning_rate": 5e-3},
            "seeds": SEEDS,
            "evaluation": {"samples": 500},
        }
    )
    resolved, heard = resolve(spec, None), _Listening()
    run(resolved, NOTHING_PLACED, folder, heard, "cpu")
    facts = BaseModelFacts(
        name=name,
        digest=spec_digest(resolved),
        family=resolved.family,
        task=resolved.task,
        replicates=SEEDS,
    )
    files = tuple(_local(e.path) for e in heard.events if isinstance(e, CheckpointWritten))
    scores = [e.evaluation for e in heard.events if isinstance(e, Evaluated)]
    return facts, files, tuple(one.accuracy for one in scores if one.task == resolved.task)


def _runs(
    base: str, facts: BaseModelFacts, files: tuple[LocalFile, ...], wanted: Sequence[str] | None
) -> Iterator[Measured]:
    for suffix, training in _settings():
        for task, name, method, budget in _wanted(base):
            if wanted and name + suffix not in wanted:
                continue
            rates = WEIGHT_RATES if name in WEIGHTS else RATES
            spec = AdaptSpec.model_validate(
                {
                    "base_model": base,
                    "task": task,
                    "method": method,
                    "budget": {"trainable_parameters": budget},
                    "training": {"batch_size": 32, "validations": 0, **training},
                    "tuning": {"learning_rates": rates, "validation_samples": 500},
                    "seeds": SEEDS,
                    "evaluation": {"samples": 500},
                    "capture": {"attention": {"samples": 2}},
                }
            )
            started = time.monotonic()
            one = _measured(base, name + suffix, resolve(spec, facts), files)
            print(base, one.task, one.run, one.parameters, _curve(one.trials), end=" ")
            print(f"{one.score:.1%} {time.monotonic() - started:.0f} s", flush=True)
            yield one


def _curve(trials: Sequence[TrialEvidence]) -> str:
    """Return the mean final loss of every rate."""
    rates = sorted({one.learning_rate for one in trials})
    losses = [[t.final_loss for t in trials if t.learning_rate == r] for r in rates]
    means = [math.nan if None in of else sum(x or 0 for x in of) / len(of) for of in losses]
    return " ".join(f"{rate:g}:{mean:.2f}" for rate, mean in zip(rates, means, strict=True))


def _local(path: Path) -> LocalFile:
    return LocalFile(sha256=hashlib.sha256(path.read_bytes()).hexdigest(), path=path)


def _measured(base: str, name: str, spec: ResolvedAdapt, files: tuple[LocalFile, ...]) -> Measured:
    heard = _Listening()
    with tempfile.TemporaryDirectory() as scratch:
        run(spec, PlacedInputs(bases=files), Path(scratch), heard, "cpu")
    (ended,) = (e.replicates for e in heard.events if isinstance(e, ReplicatesDecided))
    points = [p for e in heard.events if isinstance(e, Metrics) for p in e.points]
    halves: dict[int, float] = {}
    for p in sorted(points, key=lambda point: point.step):
        is_loss = p.name == "train_loss" and p.step <= spec.training.steps // 2
        if is_loss and p.value is not None and math.isfinite(p.value):
            halves[p.replicate] = p.value
    scores = [e.evaluation for e in heard.events if isinstance(e, Evaluated)]
    task = as_json(spec.task)
    own: list[Evaluation] = [one for one in scores if one.attached and one.task == task]
    moved = [
        summary.relative_deviation
        for e in heard.events
        if isinstance(e, AttentionCaptured) and e.attention.source == "adapted"
        for summary in e.attention.summaries
        if summary.layer == 0
    ]
    return Measured(
        base=base,
        task=str(task["name"]),
        run=name,
        method=as_json(spec.method),
        parameters=spec.budget.trainable_parameters,
        steps=spec.training.steps,
        schedule=spec.training.schedule,
        trials=trial_evidence(ended, halves),
        score=sum(one.accuracy for one in own) / len(own),
        moved=max(moved, default=None),
    )


if __name__ == "__main__":
    main()
