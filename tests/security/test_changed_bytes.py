"""Bytes changed in the store are refused by digest before training."""

import json
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_claim, a_job, a_ledger
from tests.worker.conftest import Control, Processes, Watched

from adaptlab.runs.events import TrainingSaved
from adaptlab_db.tables import ArtifactChunk

STATE = b"a sound training state"
Sessions = sessionmaker[Session]


@pytest.fixture
def job(sessions: Sessions) -> UUID:
    """A job interrupted after its first step, with its saved state."""
    with sessions.begin() as session:
        a_base_model(session)
        made = a_job(session)
    ledger = a_ledger(sessions)
    claim = a_claim(ledger)
    path = Path("training-1.safetensors")
    sha256 = ledger.put_artifact(claim, [STATE]).sha256
    ledger.record(claim, [TrainingSaved(step=1, path=path)], {path: sha256})
    ledger.release(claim, "preempted")
    return made


def change(sessions: Sessions, content: bytes) -> None:
    """Turn the first byte of what is stored with this content round."""
    with sessions.begin() as session:
        chunk = session.scalars(select(ArtifactChunk).where(ArtifactChunk.content == content)).one()
        key = (ArtifactChunk.sha256 == chunk.sha256) & (ArtifactChunk.number == chunk.number)
        changed = bytes([content[0] ^ 1]) + content[1:]
        session.execute(update(ArtifactChunk).where(key).values(content=changed))


def given(control: Control) -> list[list[str]]:
    """What was handed to runs."""
    return [json.loads(place.read_text()) for place in control.folder.glob("given-*[0-9]")]


def start(processes: Processes) -> None:
    processes.start("worker", "--runner", f"{__package__}.confined_runs:tell_resume")


def test_what_nobody_changed_is_handed_over(
    processes: Processes, watched: Watched, control: Control, job: UUID
) -> None:
    start(processes)
    watched.wait_for_state(job, "succeeded")
    assert given(control) == [["weights of seed 0", "weights of seed 1", STATE.decode()]]


@pytest.mark.parametrize("content", [STATE, b"weights of seed 1"])
def test_what_somebody_changed_is_not(
    processes: Processes,
    sessions: Sessions,
    watched: Watched,
    control: Control,
    job: UUID,
    content: bytes,
) -> None:
    change(sessions, content)
    start(processes)
    watched.wait(job, lambda job: job.attempt >= 2 and job.state != "running", "the attempt's end")
    told = [text for texts in given(control) for text in texts]
    assert [text for text in told if text not in ("weights of seed 0", "weights of seed 1")] == []
    if content != STATE:
        assert given(control) == []
        assert watched.job(job).state != "succeeded"
