"""A job of which a worker has recorded results."""

import io
from pathlib import Path

import numpy as np
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    a_checkpoint,
    a_claim,
    a_made_up_ledger,
    a_replicate,
    an_adapt_document,
    an_attention_map,
    an_environment,
    an_evaluation,
    answers_given,
    items_shown,
    metric_points,
)

from adaptlab.runs import events
from adaptlab_client import Client
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.lifecycle.held_leases import Claim

CHECKPOINT = b"tensors " * 400_000  # 3.2 MB: several rows in the database


def a_finished_job(
    client: Client, sessions: sessionmaker[Session], folder: Path
) -> tuple[str, np.ndarray]:
    """A job with recorded results, and the attention that was recorded."""
    job = client.jobs.submit(an_adapt_document())
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    patterns = np.arange(35, dtype=np.float16).reshape(1, 1, 1, 5, 7) / 64
    record_results(ledger, claim, folder, patterns)
    ledger.finish(claim)
    return str(job.id), patterns


def record_results(
    ledger: DatabaseLedger, claim: Claim, folder: Path, patterns: np.ndarray
) -> None:
    buffer = io.BytesIO()
    np.save(buffer, patterns, allow_pickle=False)
    (folder / "attention.npy").write_bytes(buffer.getvalue())
    (folder / "adapter.safetensors").write_bytes(CHECKPOINT)
    files = [folder / "attention.npy", folder / "adapter.safetensors"]
    stored = {path: ledger.put_artifact(claim, [path.read_bytes()]).sha256 for path in files}
    ledger.record(
        claim,
        [
            events.Started(environment=an_environment(), replicates=1),
            events.Progress(phase="training", step=4, total=4),
            events.Metrics(points=metric_points()),
            events.ReplicatesDecided(replicates=(a_replicate(0), a_replicate(1))),
            events.Evaluated(evaluation=an_evaluation(0)),
            events.Evaluated(evaluation=an_evaluation(1, correct=8, outcomes="ff00")),
            events.Evaluated(
                evaluation=an_evaluation(0, attached=False, correct=0, outcomes="0000")
            ),
            events.Evaluated(
                evaluation=an_evaluation(1, attached=False, correct=4, outcomes="f000")
            ),
            items_shown(),
            answers_given(0),
            answers_given(1, right=8),
            answers_given(0, right=0, attached=False),
            answers_given(1, right=4, attached=False),
            events.AttentionCaptured(attention=an_attention_map(0), path=files[0]),
            events.CheckpointWritten(checkpoint=a_checkpoint(0), path=files[1]),
        ],
        stored,
    )
