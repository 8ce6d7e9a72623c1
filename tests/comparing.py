"""Results that nobody trained for, written as a worker writes them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    MadeUpLedger,
    a_replicate,
    a_study_document,
    a_summary,
    an_adapt_document,
    an_attention_map,
    an_environment,
)

from adaptlab.code_version import code_version
from adaptlab.runs import events
from adaptlab.specs.halving import rung_steps
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.studies.study import StudySpec
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.lifecycle.held_leases import Claim

ITEMS = 400
MAP = Path("attention/0-adapted.npy")
OWN_TASK = {"name": "sort_ascending", "length": 3, "alphabet": 4, "few_distinct": True}
"""What the small base model of the tests was pretrained on."""


@dataclass(frozen=True)
class Run:
    """Measurements of a job, the same for every seed except by `shift`.

    The first `right` test items are right, and as many more as the seed's number times `shift`;
    of the base model alone it is `alone`.
    `loss` is the training loss at the end of every trial and `half` that at half of the steps;
    of the trials in their order it is higher by `above`, and they have the validation `metrics`.
    """

    right: int = 0
    shift: int = 0
    alone: int = 7
    loss: float = 0.1
    half: float | None = None
    above: tuple[float, ...] = ()
    validation: float = 0.0
    metrics: tuple[float, ...] = ()
    deviation: float | None = None
    code_version: str = code_version()
    own_task: tuple[int, int] | None = None
    fails: bool = False
    figures: Callable[[int], Mapping[str, Any]] = lambda _: {}
    """Other members of a seed's score on its task."""


def run_all(sessions: sessionmaker[Session], run_of: Callable[[ResolvedSpec], Run]) -> None:
    """Claim every job that there is and end it as `run_of` says."""
    ledger = MadeUpLedger(sessions, lease_seconds=30)
    worker = ledger.register_worker("laptop", 4711, ["cpu"])
    while (claim := ledger.claim(worker, ["cpu"])) is not None:
        run = run_of(claim.resolved_spec)
        if run.fails:
            ledger.fail(claim, "diverged", "The loss is not finite", retry=False)
        else:
            write_run(ledger, claim, run)
            ledger.finish(claim)


def write_run(ledger: DatabaseLedger, claim: Claim, run: Run) -> None:
    """Record what a run that came to its end would."""
    ledger.record(claim, [*_events(claim.resolved_spec, run)])
    if run.deviation is not None:
        captured = an_attention_map(
            # The second layer is free to move, and nobody must look there.
            summaries=(
                a_summary(relative_deviation=run.deviation),
                a_summary(layer=1, relative_deviation=0.9),
            )
        )
        sha256 = ledger.put_artifact(claim, [b"a map"]).sha256
        event = events.AttentionCaptured(attention=captured, path=MAP)
        ledger.record(claim, [event], {MAP: sha256})


def _events(spec: ResolvedSpec, run: Run) -> Iterator[events.Event]:
    environment = an_environment(code_version=run.code_version)
    replicates = tuple(_replicates(spec, run))
    yield events.Started(environment=environment, replicates=len(replicates))
    yield events.Metrics(points=tuple(_points(spec, run, replicates)))
    yield events.ReplicatesDecided(replicates=replicates)
    if spec.task is None:
        return
    for one in replicates:
        right = min(ITEMS, run.right + run.shift * one.seed)
        if one.selected:
            yield _evaluated(one, spec.task, right, **run.figures(one.seed))
            yield _evaluated(one, spec.task, run.alone, attached=False)
            if run.own_task:
                yield _evaluated(one, OWN_TASK, run.own_task[0], attached=False)
                yield _evaluated(one, OWN_TASK, run.own_task[1])


def _replicates(spec: ResolvedSpec, run: Run) -> Iterator[events.ReplicateResult]:
    """Replicates; each seed's last trial is chosen, 5 points better.

    With halving, no other goes on after the first rung.
    """
    trials = spec.training.trials
    ends = (*rung_steps(spec.training.steps, spec.training.halving), spec.training.steps)
    for place, seed in enumerate(spec.seeds):
        for number, trial in enumerate(trials):
            is_last = number == len(trials) - 1
            yield a_replicate(
                place * len(trials) + number,
                seed=seed,
                trial=number,
                learning_rate=trial.learning_rate,
                weight_decay=trial.weight_decay,
                selected=is_last,
                final_loss=run.loss + _above(run, number),
                validation_accuracy=run.validation + 0.05 * is_last if len(trials) > 1 else None,
                validation_metric=run.metrics[number] if number < len(run.metrics) else None,
                steps=ends[-1 if is_last else 0],
                status="completed" if is_last or len(ends) == 1 else "eliminated",
            )


def _points(
    spec: ResolvedSpec, run: Run, replicates: tuple[events.ReplicateResult, ...]
) -> Iterator[events.MetricPoint]:
    half = spec.training.steps // 2
    values = {1: 9.0, half: run.loss if run.half is None else run.half, half + 1: run.loss}
    for one in replicates:
        for step, value in values.items():
            yield events.MetricPoint(
                replicate=one.replicate,
                name="train_loss",
                step=step,
                value=value + _above(run, one.trial),
            )


def _above(run: Run, trial: int) -> float:
    return run.above[trial] if trial < len(run.above) else 0.0


def _evaluated(
    one: events.ReplicateResult,
    task: Mapping[str, object],
    right: int,
    *,
    attached: bool = True,
    **figures: Any,
) -> events.Evaluated:
    return events.Evaluated(
        evaluation=events.Evaluation(
            replicate=one.replicate,
            seed=one.seed,
            task=dict(task),
            split="test",
            attached=attached,
            correct=right,
            total=ITEMS,
            outcomes=np.packbits(np.arange(ITEMS) < right).tobytes().hex(),
            **figures,
        )
    )


ENOUGH_BASES = tuple(b"weights of seed %d" % seed for seed in range(5))
"""Contents of a base model of which every seed has a replicate of its own."""


def a_measured_study(**changes: Any) -> dict[str, Any]:
    """The JSON of a study with three trials and three seeds per method."""
    return a_study_document(
        **{
            "seeds": 3,
            "tuning": {"trials": 3},
            "evaluation": {"samples": ITEMS},
            "training": {"steps": 20, "batch_size": 4},
        }
        | changes
    )


def a_measured_job(**changes: Any) -> dict[str, Any]:
    """The JSON of a job like those of the study."""
    return an_adapt_document(
        **{
            "seeds": 3,
            "tuning": {"trials": 3},
            "evaluation": {"samples": ITEMS},
            "training": {"steps": 20, "batch_size": 4},
        }
        | changes
    )


def as_known(spec: ResolvedSpec) -> Run:
    """The base learns nothing, full fine-tuning all, prefixes fail.

    LoRA learns all at 64 and most at 32.

    Chance is a loss of ln 4 = 1.39 nats. A prefix trains to 1.3 at the second of three rates, and
    its attention is pinned; fine-tuning with pinned attention does half of the items.
    """
    name = str((spec.method or {}).get("name"))
    runs = {
        "frozen": Run(right=0),
        "full_finetuning": Run(right=400, loss=0.01, validation=0.9, own_task=(380, 20)),
        "lora": Run(right=300 if spec.budget.trainable_parameters == 32 else 400, validation=0.7),
        "prefix_tuning": Run(
            right=4, loss=1.3, above=(0.4, 0.0, 0.3), deviation=1e-13, own_task=(380, 340)
        ),
        "pinned_finetuning": Run(right=220, loss=0.3, deviation=0.0),
        "attention_bias": Run(right=8, loss=1.2, deviation=1e-13),
    }
    return runs.get(name, Run(right=200, validation=0.4))


def a_measured_study_spec(**changes: Any) -> StudySpec:
    """The study of `a_measured_study`."""
    return StudySpec.model_validate(a_measured_study(**changes))
