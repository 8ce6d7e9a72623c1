"""One job from its resolved spec to its results; everything is reported to the observer."""

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from adaptlab.engine.allocate import Trainables, allocate
from adaptlab.engine.capture import capture_attention
from adaptlab.engine.checkpoint import read_bases, write_checkpoint
from adaptlab.engine.evaluate import outcomes
from adaptlab.engine.model import Model
from adaptlab.engine.observer import Observer
from adaptlab.engine.plan import Plan, make_plan
from adaptlab.engine.train import Training, TrainingOutcome
from adaptlab.errors import TrainingDiverged
from adaptlab.results import (
    Environment,
    Evaluated,
    Evaluation,
    ReplicateResult,
    ReplicatesDecided,
    Started,
)
from adaptlab.spec import ResolvedSpec


def run(
    spec: ResolvedSpec,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    device: str = "auto",
    resume: Path | None = None,
) -> None:
    """Train, choose a trial for every seed, evaluate, record attention, write checkpoints.

    `bases` are the checkpoint files of the base model's replicates, in replicate order; files
    are written below `scratch`. With `resume`, a saved state of the same spec, training goes on
    after its last step, and everything comes out as it would have without the break. Raises
    `TrainingDiverged`, `TrainingStopped`, `BadCheckpoint` or `InvalidSpec`; what was measured
    until then has been reported.
    """
    plan = make_plan(spec, device)
    observer.emit(Started(environment=_environment(plan), replicates=plan.replicates))
    base = _base(plan, bases)
    trainables = allocate(plan.trained_shapes, plan.replicate_seeds, base, plan.dtype)
    training = Training(plan, Model(plan, base, trainables.tensors), trainables, observer)
    if resume is not None:
        training.restore(resume)
    outcome = training.run(scratch)
    results = _decide(plan, base, trainables, outcome)
    observer.emit(ReplicatesDecided(replicates=results))
    chosen = tuple(result for result in results if result.selected)
    _check_complete(plan, chosen)
    model = _selected(plan, base, trainables, chosen).kept()
    for row, result in enumerate(chosen):
        tensors = {name: tensor[row] for name, tensor in model.trained.items()}
        written = write_checkpoint(model.plan, tensors, result.seed, result.replicate, scratch)
        observer.emit(written)
    _evaluate(plan, model, chosen, observer)
    if spec.attention is not None:
        _capture(plan, model, chosen, scratch, observer)


def _base(plan: Plan, files: tuple[Path, ...]) -> dict[str, Tensor]:
    """The base weights, one group for each seed, or a single group that all seeds share."""
    if plan.method is None:
        return {}
    paths = tuple(files[replicate] for replicate in plan.spec.base_replicates)
    return read_bases(paths, plan.shape, plan.device, plan.dtype)


def _decide(
    plan: Plan, base: Mapping[str, Tensor], trainables: Trainables, outcome: TrainingOutcome
) -> tuple[ReplicateResult, ...]:
    """Choose, for every seed, the trial with the best validation accuracy.

    Ties go to the lower training loss, then to the lower rate. Diverged trials cannot win.
    """
    scores = _validation_scores(plan, base, trainables) if plan.trials > 1 else None
    results: list[ReplicateResult] = []
    for row, seed in enumerate(plan.spec.seeds):
        trials = range(row * plan.trials, (row + 1) * plan.trials)
        alive = [r for r in trials if not outcome.diverged[r]]

        def rank(replicate: int) -> tuple[float, float, int]:
            score = 0.0 if scores is None else scores[replicate]
            return (-score, outcome.final_losses[replicate] or 0.0, replicate)

        winner = min(alive, key=rank, default=None)
        for trial, replicate in enumerate(trials):
            diverged = outcome.diverged[replicate]
            results.append(
                ReplicateResult(
                    replicate=replicate,
                    seed=seed,
                    trial=trial,
                    **plan.spec.training.trials[trial].model_dump(),
                    status="diverged" if diverged else "completed",
                    selected=replicate == winner,
                    final_loss=None if diverged else outcome.final_losses[replicate],
                    validation_accuracy=None if scores is None or diverged else scores[replicate],
                    steps=outcome.steps[replicate],
                )
            )
    return tuple(results)


def _validation_scores(
    plan: Plan, base: Mapping[str, Tensor], trainables: Trainables
) -> list[float]:
    model = Model(plan, base, {name: t.detach() for name, t in trainables.tensors.items()})
    samples = plan.spec.validation_samples
    right = outcomes(model, plan.task, "validation", samples, plan.replicates)
    return right.double().mean(1).tolist()


def _check_complete(plan: Plan, chosen: tuple[ReplicateResult, ...]) -> None:
    """A base model must have every replicate; an adaptation reports the seeds that it has."""
    if plan.method is None and len(chosen) < len(plan.spec.seeds):
        lost = set(plan.spec.seeds) - {result.seed for result in chosen}
        raise TrainingDiverged(
            f"The base model diverged for seeds {sorted(lost)}; lower the learning rate."
        )


def _selected(
    plan: Plan,
    base: Mapping[str, Tensor],
    trainables: Trainables,
    chosen: tuple[ReplicateResult, ...],
) -> Model:
    """The chosen replicates alone, each with its own base where the bases differ."""
    rows = torch.tensor([result.replicate for result in chosen], device=plan.device)
    groups = rows // plan.trials
    kept = {n: t if t.shape[0] == 1 else t[groups] for n, t in base.items()}
    return Model(plan, kept, trainables.selected(rows))


def _evaluate(
    plan: Plan, model: Model, chosen: tuple[ReplicateResult, ...], observer: Observer
) -> None:
    samples = plan.spec.evaluation_samples
    for task in plan.evaluation_tasks():
        right = outcomes(model, task, "test", samples, len(chosen)).cpu().numpy()
        for row, result in enumerate(chosen):
            evaluation = Evaluation(
                replicate=result.replicate,
                seed=result.seed,
                task=task.model_dump(mode="json"),
                split="test",
                correct=int(right[row].sum()),
                total=samples,
                outcomes=np.packbits(right[row]).tobytes().hex(),
            )
            observer.emit(Evaluated(evaluation=evaluation))


def _capture(
    plan: Plan,
    model: Model,
    chosen: tuple[ReplicateResult, ...],
    scratch: Path,
    observer: Observer,
) -> None:
    exact = Model(
        replace(model.plan, dtype=torch.float64),
        {name: tensor.double() for name, tensor in model.base.items()},
        {name: tensor.double() for name, tensor in model.trained.items()},
    )
    seeds = tuple(result.seed for result in chosen)
    replicates = tuple(result.replicate for result in chosen)
    for captured in capture_attention(exact.plan, exact, seeds, replicates, scratch):
        observer.emit(captured)


def _environment(plan: Plan) -> Environment:
    return Environment(
        device=str(plan.device),
        precision=plan.spec.training.precision,
        compiled=False,
        threads=torch.get_num_threads(),
        torch_version=torch.__version__,
        code_version=code_version(),
        python_version=platform.python_version(),
        platform=platform.platform(),
    )


def code_version() -> str:
    """The installed version and a digest of the core's sources, so that edits show."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return f"{version('adaptlab')}+{digest.hexdigest()[:12]}"
