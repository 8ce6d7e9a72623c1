"""Execution of one job; all results are sent to the observer."""

import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from adaptlab.code_version import code_version
from adaptlab.engine.items.datasets import read_datasets
from adaptlab.engine.kernels.compiled import are_compiled
from adaptlab.engine.kernels.rounding import check_rounds, rounded_products
from adaptlab.engine.measuring.answering import shown_answers
from adaptlab.engine.measuring.phase_progress import PhaseProgress
from adaptlab.engine.measuring.scoring import answers_to_score, score
from adaptlab.engine.models import nf4
from adaptlab.engine.models.base_weights import BaseWeights
from adaptlab.engine.models.checkpoint import write_checkpoint
from adaptlab.engine.models.demonstrating import demonstrations
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.engine.observer import Observer
from adaptlab.engine.training.allocate import Trainables
from adaptlab.engine.training.choice import decide
from adaptlab.engine.training.chunks import memory_limit
from adaptlab.engine.training.initial_tensors import initial_trainables, with_companions
from adaptlab.engine.training.train import Training
from adaptlab.errors import TrainingDiverged, TrainingStopped
from adaptlab.running.capture import capture_attention
from adaptlab.running.importing import AS_FOUND, adapted_model, imported_model
from adaptlab.running.meter import Clock, Meter
from adaptlab.running.product_speed import ProductSpeed, chosen_precision, product_speed
from adaptlab.running.transfer import carried
from adaptlab.runs.events import (
    Environment,
    Evaluated,
    Finished,
    ReplicateResult,
    ReplicatesDecided,
    Started,
)
from adaptlab.runs.inputs import LocalFile, PlacedInputs, SavedTraining
from adaptlab.specs.resolved import Resolved, ResolvedImport, ResolvedTheory, evaluation_bases
from adaptlab.theory.runner import run_checks


def run(
    spec: Resolved,
    inputs: PlacedInputs,
    scratch: Path,
    observer: Observer,
    device: str = "auto",
    *,
    clock: Clock | None = None,
    memory_bytes: int | None = None,
) -> None:
    """Train, select trials, evaluate, record attention, write checkpoints.

    An import reads all weights in its folder instead of training, and stores none. An imported
    adapter is read from its folder, and stored like a trained one. Theory checks train
    nothing and run on the CPU, each in its own precision.

    Output files are written to `scratch`. With a saved state of the same spec among the inputs,
    training continues after its last step, with the results of an uninterrupted run. With a `clock`
    in seconds, the usage is reported last. Replicates that do not fit in `memory_bytes` together
    are trained in several passes; the default limit is most of the free memory.

    Raises `TrainingDiverged`, `TrainingStopped`, `OutOfMemory`, `BadCheckpoint`, `BadModelFolder`,
    `BadAdapter`, `BadDataset` or `InvalidSpec`, after reporting what was measured until then.
    """
    base = BaseWeights(inputs.bases, inputs.folder, memory_bytes)
    is_theory = isinstance(spec, ResolvedTheory)
    contents = read_datasets(spec, inputs.datasets, inputs.folder)
    on = "cpu" if is_theory else device
    plan = make_plan(spec, on, contents.lists, contents.texts, contents.tokeniser)
    meter = None if clock is None else Meter(plan.device, clock)
    plan = _started(plan, observer, clock)
    with rounded_products(rounded=False):  # torch rounds those of convolutions by default
        if isinstance(spec, ResolvedTheory):
            run_checks(plan, base, inputs.adapters, observer)
        else:
            if isinstance(spec, ResolvedImport):
                model = imported_model(plan, inputs.folder, memory_bytes)
                chosen = _as_found(plan, observer)
            elif spec.trains:
                model, chosen = _trained(plan, base, scratch, observer, inputs.resume, meter)
            else:
                model = adapted_model(plan, inputs.adapter, base)
                chosen = _as_found(plan, observer)
            if not isinstance(spec, ResolvedImport):
                _keep(model, chosen, scratch, observer)
            _report(plan, model, chosen, scratch, observer)
            del model  # so that no two base models are in memory
            _carry(plan, chosen, inputs, memory_bytes, observer)
    base.check_unchanged()
    _finish(meter, observer)


def _started(plan: Plan, observer: Observer, clock: Clock | None) -> Plan:
    """Check that the device can run a plan, and report the start.

    Returns the plan with its precision chosen.
    """
    if plan.rounds_products:
        check_rounds(plan.device)
    if plan.spec.quantises:
        nf4.check_device(plan.device)
    speed = product_speed(plan, clock)
    plan = replace(plan, chosen=chosen_precision(plan, speed))
    observer.emit(Started(environment=_environment(plan, speed), replicates=plan.replicates))
    return plan


def _carry(
    plan: Plan,
    chosen: tuple[ReplicateResult, ...],
    inputs: PlacedInputs,
    memory_bytes: int | None,
    observer: Observer,
) -> None:
    """Evaluate what was found on other base models."""
    if not evaluation_bases(plan.spec):
        return
    for event in carried(plan, chosen, inputs, memory_bytes, observer):
        observer.emit(event)
        if observer.command() == "stop":
            raise TrainingStopped("The run was asked to stop during its evaluation.")


def _finish(meter: Meter | None, observer: Observer) -> None:
    if meter is not None:
        observer.emit(Finished(usage=meter.usage()))


def _as_found(plan: Plan, observer: Observer) -> tuple[ReplicateResult, ...]:
    """Report and return the only replicate of what was read from a folder."""
    if observer.command() == "stop":
        raise TrainingStopped("The run was asked to stop while the folder was read.")
    (seed,) = plan.spec.seeds
    found = AS_FOUND.model_copy(update={"seed": seed})
    observer.emit(ReplicatesDecided(replicates=(found,)))
    return (found,)


def _trained(
    plan: Plan,
    source: BaseWeights,
    scratch: Path,
    observer: Observer,
    resume: SavedTraining[LocalFile] | None,
    meter: Meter | None,
) -> tuple[Model, tuple[ReplicateResult, ...]]:
    """Train; return the selected replicates' model and all selected results."""
    spec, limit = plan.spec, memory_limit(plan.device, source.memory_bytes)
    base = {} if plan.method is None else source.read(plan, spec.base_replicates, plan.dtype)
    base = with_companions(plan, base)
    trainables = initial_trainables(plan, base)
    model = Model(plan, base, trainables.tensors)
    training = Training(plan, model, trainables, observer, limit)
    if resume is not None:
        training.restore(resume.state.path)
    if meter is not None:
        meter.begin_training()
    outcome = training.run(scratch)
    if meter is not None:
        meter.end_training(training.steps_taken, training.division)
    results = decide(plan, base, trainables, outcome)
    observer.emit(ReplicatesDecided(replicates=results))
    chosen = tuple(result for result in results if result.selected)
    _check_complete(plan, chosen)
    return _selected(plan, base, trainables, chosen).kept(), chosen


def _keep(
    model: Model, chosen: tuple[ReplicateResult, ...], scratch: Path, observer: Observer
) -> None:
    """Write checkpoints of the selected replicates."""
    for row, result in enumerate(chosen):
        tensors = {name: tensor[row] for name, tensor in model.trained.items()}
        written = write_checkpoint(model.plan, tensors, result.seed, result.replicate, scratch)
        observer.emit(written)


def _report(
    plan: Plan,
    model: Model,
    chosen: tuple[ReplicateResult, ...],
    scratch: Path,
    observer: Observer,
) -> None:
    """Evaluate the selected replicates; record their answers and attention."""
    pace = PhaseProgress(observer, "evaluating", answers_to_score(plan, chosen))
    for evaluation in score(model, chosen, pace.advance):
        observer.emit(Evaluated(evaluation=evaluation))
    for shown in shown_answers(model, chosen, observer):
        observer.emit(shown)
    if plan.spec.attention is not None:
        _capture(plan, model, chosen, scratch, observer)


def _check_complete(plan: Plan, chosen: tuple[ReplicateResult, ...]) -> None:
    """Raise `TrainingDiverged` if a base model lacks a seed."""
    if plan.method is None and len(chosen) < len(plan.spec.seeds):
        lost = set(plan.spec.seeds) - {result.seed for result in chosen}
        raise TrainingDiverged(
            f"The base model diverged for seeds {sorted(lost)}. Lower the learning rate."
        )


def _selected(
    plan: Plan,
    base: Mapping[str, Tensor],
    trainables: Trainables,
    chosen: tuple[ReplicateResult, ...],
) -> Model:
    """Return a model of the selected replicates, with their bases."""
    rows = torch.tensor([result.replicate for result in chosen], device=plan.device)
    groups = rows // plan.trials
    kept = {n: t if t.shape[0] == 1 else t[groups] for n, t in base.items()}
    context = demonstrations(plan)
    own = None if context is None else context.rows(groups.tolist())
    return Model(plan, kept, trainables.selected(rows), own)


def _capture(
    plan: Plan,
    model: Model,
    chosen: tuple[ReplicateResult, ...],
    scratch: Path,
    observer: Observer,
) -> None:
    exact = Model(
        replace(model.plan, dtype=torch.float64),
        nf4.in_dtype(model.base, torch.float64),
        {name: tensor.double() for name, tensor in model.trained.items()},
    )
    seeds = tuple(result.seed for result in chosen)
    replicates = tuple(result.replicate for result in chosen)
    for captured in capture_attention(exact, seeds, replicates, scratch, observer):
        observer.emit(captured)


def _environment(plan: Plan, speed: ProductSpeed | None) -> Environment:
    return Environment(
        device=str(plan.device),
        precision=plan.precision,
        bfloat16_cost=None if speed is None else round(speed.bfloat16_cost, 2),
        product_gflops=None if speed is None else round(speed.gflops, 1),
        compiled=are_compiled(plan.dtype, plan.device),
        threads=torch.get_num_threads(),
        torch_version=torch.__version__,
        code_version=code_version(),
        python_version=platform.python_version(),
        platform=platform.platform(),
    )
