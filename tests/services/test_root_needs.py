"""Jobs go to workers that can read their model roots, and say if none can."""

from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.folders import a_model_folder
from tests.making import a_base_model, a_job, a_ledger, a_principal

from adaptlab.specs.spec import ImportSpec
from adaptlab_services.jobs import jobs
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.models.model_folders import ModelRoots

Sessions = sessionmaker[Session]
ANY = None


@pytest.fixture
def needing(sessions: Sessions, tmp_path: Path) -> UUID:
    """The id of a queued import from the root `lab`, which is the oldest job."""
    a_model_folder(tmp_path / "lab" / "llama")
    roots = ModelRoots({"lab": tmp_path / "lab"})
    spec = ImportSpec.model_validate({"name": "llama", "folder": "lab/llama"})
    with sessions.begin() as session:
        return jobs.create(session, a_principal(session), spec, roots=roots).job.id


def a_worker(ledger: DatabaseLedger, *roots: str, queue: str = "cpu") -> UUID:
    return ledger.register_worker("node", 1, [queue], roots)


def unread(sessions: Sessions, job: UUID) -> tuple[str, ...]:
    with sessions.begin() as session:
        return jobs.get(session, job).queue.unread_roots


def claimed(ledger: DatabaseLedger, worker: UUID) -> UUID | None:
    claim = ledger.claim(worker, ["cpu"])
    return None if claim is None else claim.job_id


def test_a_worker_without_the_root_gets_the_next_job(sessions: Sessions, needing: UUID) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        other = a_job(session)
    ledger = a_ledger(sessions)
    without = a_worker(ledger, "models")
    assert claimed(ledger, without) == other
    assert claimed(ledger, without) is None
    assert unread(sessions, needing) == ("lab",)
    assert claimed(ledger, a_worker(ledger, "models", "lab")) == needing
    assert unread(sessions, needing) == ()


def test_an_adaptation_needs_the_root_of_its_base_model(sessions: Sessions, needing: UUID) -> None:
    ledger = a_ledger(sessions)
    reader, without = a_worker(ledger, "lab"), a_worker(ledger)
    assert claimed(ledger, reader) == needing
    with sessions.begin() as session:
        a_base_model(session)
        of_stored = a_job(session)
        of_folder = a_job(session, base_model="llama")
    assert claimed(ledger, without) == of_stored
    assert claimed(ledger, without) is None
    assert claimed(ledger, reader) == of_folder


def test_only_live_workers_of_the_queue_that_report_their_roots_count(
    sessions: Sessions, needing: UUID
) -> None:
    ledger = a_ledger(sessions)
    assert unread(sessions, needing) == (), "no worker: the queue is unserved"
    a_worker(ledger, "lab", queue="gpu")
    gone = a_worker(ledger, "lab")
    a_worker(ledger)
    assert unread(sessions, needing) == ()
    ledger.say_goodbye(gone)
    assert unread(sessions, needing) == ("lab",)
    earlier = ledger.register_worker("node", 1, ["cpu"])
    assert unread(sessions, needing) == (), "one that did not report them may read it"
    assert claimed(ledger, earlier) == needing
