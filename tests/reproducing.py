"""Studies of recipes with measurements that the test gives."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    MadeUpLedger,
    a_checkpoint,
    a_principal,
    a_replicate,
    a_summary,
    an_attention_map,
    an_environment,
)

from adaptlab.plugins.registry import as_json
from adaptlab.reproductions.recipe_study import RecipeRequest
from adaptlab.runs import events
from adaptlab.runs.theory_report import Check
from adaptlab.specs.resolved import readable, scored_tasks
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_answers.recipes import StudyReport
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.recipes import recipes
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

ITEMS = 3200
MAP, WEIGHTS = Path("map.npy"), Path("weights.safetensors")


@dataclass(frozen=True)
class Run:
    """What a job is said to have measured, the same for every seed.

    `right` are the items right by task, and `alone` those of the base model; the last trial of a
    seed has `last` of the validation items right, and the others none.
    """

    right: Mapping[str, int] = field(default_factory=dict[str, int])
    alone: Mapping[str, int] = field(default_factory=dict[str, int])
    last: float = 0.0
    deviation: float | None = None
    checks: tuple[Check, ...] = ()
    fails: bool = False


def request(**changes: Any) -> RecipeRequest:
    """Return a request for the study of a recipe, by default table 1."""
    return RecipeRequest.model_validate(
        {"recipe": "petrov2024/table-1", "preset": "quick", "seeds": 3} | changes
    )


def create(sessions: sessionmaker[Session], **changes: Any) -> str:
    """The name of a study that was made from a recipe."""
    with sessions.begin() as session:
        asked = recipes.requested(session, request(**changes))
        who = a_principal(session)
        made = studies.create(session, who, asked.spec, Rules(), recipe=asked.recipe)
        return made.study.name


def report(sessions: sessionmaker[Session], study: str) -> StudyReport:
    """Return the report on a study."""
    with sessions.begin() as session:
        return recipes.report(session, study)


def findings(said: StudyReport) -> dict[str, str]:
    """Return the findings by claim and wording."""
    return {f"{one.claim} {one.wording}": one.finding for one in said.claims}


def as_published(spec: ResolvedSpec) -> Run:
    """About what table 1 says, and nothing right at any rate of the prefix."""
    up, down = "sort_ascending", "sort_descending"
    if spec.method is None:
        return Run({up: 2912, down: 0})
    if spec.method["name"] == "full_finetuning":
        return Run({up: 0, down: 2720}, deviation=0.9)
    return Run({up: 0, down: 0}, deviation=3e-8)


def run_all(
    sessions: sessionmaker[Session], run_of: Callable[[ResolvedSpec], Run], most: int = 100
) -> None:
    """Claim so many jobs, as they come, and end each as `run_of` says."""
    ledger = MadeUpLedger(sessions, lease_seconds=30)
    queues = ["cpu", "gpu"]
    worker = ledger.register_worker("laptop", 4711, queues)
    while most and (claim := ledger.claim(worker, queues)) is not None:
        most -= 1
        run = run_of(claim.resolved_spec)
        if run.fails:
            ledger.fail(claim, "diverged", "The loss is not finite", retry=False)
            continue
        write(ledger, claim, run)
        ledger.finish(claim)


def write(ledger: DatabaseLedger, claim: Claim, run: Run) -> None:
    """Record what a run that came to its end would."""
    spec = claim.resolved_spec
    told = (
        events.TheoryChecked(place=place, check=check) for place, check in enumerate(run.checks)
    )
    replicates = tuple(ended(spec, run))
    started = events.Started(environment=an_environment(), replicates=len(replicates))
    decided = (events.ReplicatesDecided(replicates=replicates),) if replicates else ()
    ledger.record(claim, [started, *told, *decided], {})
    for one in replicates:
        if one.selected:
            ledger.record(claim, [*evaluated(spec, one, run)], {})
            keep(ledger, claim, one, run)


def keep(ledger: DatabaseLedger, claim: Claim, one: events.ReplicateResult, run: Run) -> None:
    """The weights of a base model, and the attention of what was captured."""
    which = {"replicate": one.replicate, "seed": one.seed}
    if claim.resolved_spec.kind == "pretrain":
        sha256 = ledger.put_artifact(claim, [b"weights of seed %d" % one.seed]).sha256
        checkpoint = a_checkpoint(**which, kind="base_model")
        written = events.CheckpointWritten(checkpoint=checkpoint, path=WEIGHTS)
        ledger.record(claim, [written], {WEIGHTS: sha256})
    if run.deviation is not None:
        heads = (a_summary(relative_deviation=run.deviation / (1 + one.seed)),)
        captured = an_attention_map(**which, summaries=heads)
        sha256 = ledger.put_artifact(claim, [b"a map"]).sha256
        ledger.record(
            claim, [events.AttentionCaptured(attention=captured, path=MAP)], {MAP: sha256}
        )


def ended(spec: ResolvedSpec, run: Run) -> Iterator[events.ReplicateResult]:
    """All trials of all seeds; the first of every seed is chosen."""
    if spec.kind == "theory":
        return
    trials = spec.training.trials
    for place, seed in enumerate(spec.seeds):
        for number, trial in enumerate(trials):
            accuracy = run.last if number == len(trials) - 1 else 0.0
            yield a_replicate(
                place * len(trials) + number,
                seed=seed,
                trial=number,
                learning_rate=trial.learning_rate,
                selected=number == 0,
                validation_accuracy=accuracy if len(trials) > 1 else None,
            )


def evaluated(
    spec: ResolvedSpec, one: events.ReplicateResult, run: Run
) -> Iterator[events.Evaluated]:
    for task in map(as_json, scored_tasks(readable(spec))):
        name = str(task["name"])
        yield scored(one, task, run.right[name], attached=True)
        if name in run.alone:
            yield scored(one, task, run.alone[name], attached=False)


def scored(
    one: events.ReplicateResult, task: dict[str, object], right: int, *, attached: bool
) -> events.Evaluated:
    """The score of a replicate, or of its base model alone."""
    return events.Evaluated(
        evaluation=events.Evaluation(
            replicate=one.replicate,
            seed=one.seed,
            task=task,
            split="test",
            attached=attached,
            correct=right,
            total=ITEMS,
            outcomes=np.packbits(np.arange(ITEMS) < right).tobytes().hex(),
        )
    )
