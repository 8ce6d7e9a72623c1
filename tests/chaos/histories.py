"""Complete small reports, for tests that play the worker themselves."""

from pathlib import Path

from sqlalchemy.orm import Session
from tests.chaos.runners import content_of
from tests.making import (
    a_base_model,
    a_checkpoint,
    a_replicate,
    an_environment,
    an_evaluation,
    metric_points,
)
from tests.stand_ins import LOSS

from adaptlab.runs.events import (
    CheckpointWritten,
    Evaluated,
    Event,
    Metrics,
    Progress,
    ReplicatesDecided,
    Started,
)
from adaptlab_db.tables import JobEvent
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.lifecycle.held_leases import Claim


def a_base_with_history(session: Session) -> None:
    """The base model `BASE` of one seed, made by an ordinary job."""
    job_id = a_base_model(session, contents=[b"weights of seed 0"], event_sequence=3)
    for sequence, kind in enumerate(("queued", "running", "succeeded"), 1):
        attempt = None if kind == "queued" else 1
        session.add(JobEvent(job_id=job_id, sequence=sequence, type=kind, attempt=attempt, data={}))


def steps_of(claim: Claim) -> list[Event]:
    """The beginning of a run and every step of it."""
    total = claim.resolved_spec.training.steps
    seeds = claim.resolved_spec.seeds
    return [
        Started(environment=an_environment(), replicates=len(seeds)),
        Metrics(points=metric_points(range(1, total + 1), LOSS)),
        Progress(phase="training", step=total, total=total),
    ]


def results_of(claim: Claim, weights: Path) -> list[Event]:
    """What a run of one seed comes to; the weights are in a file."""
    steps = claim.resolved_spec.training.steps
    return [
        ReplicatesDecided(replicates=(a_replicate(steps=steps),)),
        Evaluated(evaluation=an_evaluation()),
        CheckpointWritten(checkpoint=a_checkpoint(), path=weights),
    ]


def report(ledger: DatabaseLedger, claim: Claim, folder: Path) -> None:
    """Write everything that a run has to say, but not how it ended."""
    weights = folder / f"{claim.job_id}-{claim.attempt}"
    stored = ledger.put_artifact(claim, [content_of(claim.job_id)])
    ledger.record(claim, steps_of(claim))
    ledger.record(claim, results_of(claim, weights), {weights: stored.sha256})


def complete(ledger: DatabaseLedger, claim: Claim, folder: Path) -> None:
    """Write everything, and that the run has succeeded."""
    report(ledger, claim, folder)
    ledger.finish(claim)
