"""A run that reports one event of every kind."""

from pathlib import Path

from tests.making import (
    a_checkpoint,
    a_replicate,
    an_attention_map,
    an_environment,
    an_evaluation,
    answers_given,
    items_shown,
    map_content,
    metric_points,
    weights_content,
)

from adaptlab.runs import events
from adaptlab_services.leases.leases import Ledger
from adaptlab_services.lifecycle.held_leases import Claim

MAP, WEIGHTS = Path("attention-0.npy"), Path("adapter-0.safetensors")


def a_whole_run() -> list[events.Event]:
    """Every kind of event that a run emits."""
    return [
        events.Started(environment=an_environment(), replicates=2),
        events.Progress(phase="training", step=4, total=4),
        events.Metrics(points=metric_points()),
        events.ReplicatesDecided(replicates=(a_replicate(0), a_replicate(1))),
        events.Evaluated(evaluation=an_evaluation(0)),
        events.Evaluated(evaluation=an_evaluation(1)),
        items_shown(),
        answers_given(0),
        answers_given(1),
        events.AttentionCaptured(attention=an_attention_map(), path=MAP),
        events.CheckpointWritten(checkpoint=a_checkpoint(), path=WEIGHTS),
        events.Progress(phase="evaluating", step=1, total=2),
    ]


def record_a_whole_run(ledger: Ledger, claim: Claim) -> None:
    artifacts = {
        MAP: ledger.put_artifact(claim, [map_content()]).sha256,
        WEIGHTS: ledger.put_artifact(claim, [weights_content()[:9], weights_content()[9:]]).sha256,
    }
    ledger.record(claim, a_whole_run(), artifacts)
