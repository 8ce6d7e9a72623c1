"""Imports at the worker: its folder, and jobs that cannot be run."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from pydantic import TypeAdapter
from sqlalchemy.orm import Session, sessionmaker
from tests.folders import WEIGHTS, a_model_folder
from tests.making import a_claim, a_ledger, a_principal, an_adapt_document
from tests.worker.conftest import Control, Processes, Watched

from adaptlab.specs.spec import AnySpec, JobSpec
from adaptlab_services.jobs import jobs
from adaptlab_services.models.model_folders import ModelRoots

SPECS: TypeAdapter[AnySpec] = TypeAdapter(JobSpec)
IMPORT: dict[str, object] = {"kind": "import", "name": "llama", "folder": "models/llama"}
ADAPT = an_adapt_document(base_model="llama", method={"name": "lora", "rank": 1}, budget={})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return a_model_folder(tmp_path / "root" / "llama")


@pytest.fixture
def import_job(sessions: sessionmaker[Session], folder: Path) -> UUID:
    """An import that waits for a worker."""
    return submitted(sessions, folder, IMPORT)


def submitted(sessions: sessionmaker[Session], folder: Path, document: dict[str, object]) -> UUID:
    with sessions.begin() as session:
        spec = SPECS.validate_python(document)
        roots = ModelRoots({"models": folder.parent})
        return jobs.create(session, a_principal(session), spec, roots=roots).job.id


def _gone(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def _linked_out(folder: Path) -> None:
    outside = folder.parent.parent / WEIGHTS
    (folder / WEIGHTS).rename(outside)
    (folder / WEIGHTS).symlink_to(outside)


@pytest.mark.parametrize(
    ("change", "told", "kind"),
    [
        (_gone, "The folder 'models/llama' does not exist or cannot be read", "adapt"),
        (_linked_out, f"'{WEIGHTS}' leads out of its model root", "import"),
    ],
)
def test_a_worker_that_cannot_reach_the_folder_fails_the_job_and_says_why(
    processes: Processes,
    sessions: sessionmaker[Session],
    watched: Watched,
    folder: Path,
    import_job: UUID,
    change: Callable[[Path], None],
    told: str,
    kind: str,
) -> None:
    needing = import_job
    if kind == "adapt":
        ledger = a_ledger(sessions)
        ledger.finish(a_claim(ledger))
        needing = submitted(sessions, folder, ADAPT)
    change(folder)
    processes.worker(ADAPTLAB_MODEL_ROOTS=f"models={folder.parent}")
    job = watched.wait_for_state(needing, "failed", "succeeded")
    assert (job.kind, job.state, job.reason, job.attempt) == (kind, "failed", "system_error", 1)
    assert told in (job.error or "")
    assert "Give every worker of the queue this folder" in (job.error or "")
    assert str(folder.parent) not in (job.error or "")


def test_the_trainer_is_given_the_folder_and_not_the_roots(
    processes: Processes, control: Control, watched: Watched, folder: Path, import_job: UUID
) -> None:
    processes.worker("folder", ADAPTLAB_MODEL_ROOTS=f"models={folder.parent}")
    job = watched.wait_for_state(import_job, "failed", "succeeded")
    assert (job.state, job.error) == ("succeeded", None)
    given, environment = control.read("folder").split("\n")
    assert given == str(folder.resolve())
    assert environment == ""
