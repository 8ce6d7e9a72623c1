"""Imports as jobs: registration, waiting jobs, and failures."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session, sessionmaker
from tests.folders import PARAMETERS, a_model_folder
from tests.making import (
    a_claim,
    a_ledger,
    a_made_up_ledger,
    a_principal,
    an_adapt_document,
    keep_checkpoints,
)

from adaptlab.errors import InvalidSpec
from adaptlab.specs.spec import AnySpec, JobSpec, ModelFile
from adaptlab.weights import placed_folder
from adaptlab.weights.model_folder import CheckedFolder, fingerprint
from adaptlab_answers.jobs import JobView
from adaptlab_db.tables import Artifact, BaseModel, Job
from adaptlab_services.errors import ReportRefused, StateConflict
from adaptlab_services.jobs import jobs, lists
from adaptlab_services.jobs.lists import JobQuery
from adaptlab_services.leases.lease_views import LeaseView
from adaptlab_services.models import base_models, model_folders
from adaptlab_services.models.model_folders import ModelRoots

Sessions = sessionmaker[Session]
IMPORT = {"kind": "import", "name": "llama", "folder": "models/llama"}
ADAPT = an_adapt_document(base_model="llama", method={"name": "lora", "rank": 1}, budget={})
SPECS: TypeAdapter[AnySpec] = TypeAdapter(JobSpec)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return a_model_folder(tmp_path / "root" / "llama")


@pytest.fixture
def roots(folder: Path) -> ModelRoots:
    return ModelRoots({"models": folder.parent})


def create(sessions: Sessions, roots: ModelRoots, document: dict[str, Any]) -> JobView:
    with sessions.begin() as session:
        principal = a_principal(session)
        return jobs.create(session, principal, SPECS.validate_python(document), roots=roots).job


def state(sessions: Sessions, job: JobView) -> str:
    with sessions.begin() as session:
        return session.scalars(select(Job.state).where(Job.id == job.id)).one()


def stored(sessions: Sessions) -> tuple[int, int]:
    with sessions.begin() as session:
        counts = [
            session.scalars(select(func.count()).select_from(table)).one()
            for table in (Job, BaseModel)
        ]
    return counts[0], counts[1]


def test_an_import_makes_a_base_model_without_a_task(sessions: Sessions, roots: ModelRoots) -> None:
    job = create(sessions, roots, IMPORT)
    assert (job.kind, job.name, job.task, job.state) == ("import", "llama", None, "queued")
    assert job.budget.trainable_parameters == PARAMETERS
    assert (job.progress.step, job.progress.total) == (0, 0)
    with sessions.begin() as session:
        model = base_models.get(session, "llama")
        assert (model.task, model.replicates, model.ready) == (None, 1, False)
        assert model.parameters == PARAMETERS
        assert jobs.get(session, job.id).accuracy is None
        assert [j.id for j in lists.page(session, JobQuery("kind = import")).data] == [job.id]
        assert [j.id for j in lists.page(session, JobQuery("task = null")).data] == [job.id]


def test_an_adaptation_waits_for_an_import_and_then_runs(
    sessions: Sessions, roots: ModelRoots
) -> None:
    create(sessions, roots, IMPORT)
    waiting = create(sessions, roots, ADAPT)
    assert waiting.state == "waiting"
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    assert claim.resolved_spec.model_folder is not None
    assert claim.resolved_spec.model_folder.folder == "models/llama"
    assert claim.inputs.folder == claim.resolved_spec.model_folder
    assert ledger.finish(claim) == ("cpu",)
    assert state(sessions, waiting) == "queued"


def test_an_adaptation_reads_the_folder_of_its_base_model_and_nothing_stored(
    sessions: Sessions, roots: ModelRoots
) -> None:
    create(sessions, roots, IMPORT)
    create(sessions, roots, ADAPT)
    ledger = a_ledger(sessions)
    imported = a_claim(ledger)
    ledger.finish(imported)
    claim = a_claim(ledger)
    assert claim.resolved_spec.kind == "adapt"
    assert (claim.inputs.bases, claim.inputs.folder) == ((), imported.inputs.folder)
    assert LeaseView.of(claim).claim() == claim
    with sessions.begin() as session:
        assert session.scalars(select(func.count()).select_from(Artifact)).one() == 0
        assert base_models.get(session, "llama").folder == "models/llama"


def test_weights_that_an_import_reports_are_refused(sessions: Sessions, roots: ModelRoots) -> None:
    create(sessions, roots, IMPORT)
    ledger = a_ledger(sessions)
    claim = a_claim(ledger)
    with pytest.raises(ReportRefused, match="The job has no checkpoints"):
        keep_checkpoints(ledger, claim)


def test_a_base_model_that_was_copied_is_still_read_from_the_copy(
    sessions: Sessions, roots: ModelRoots, folder: Path
) -> None:
    create(sessions, roots, IMPORT)
    create(sessions, roots, ADAPT)
    ledger = a_made_up_ledger(sessions)  # as an earlier version, which stored the weights
    imported = a_claim(ledger)
    keep_checkpoints(ledger, imported)
    ledger.finish(imported)
    claim = a_claim(ledger)
    assert len(claim.inputs.bases) == 1
    assert claim.inputs.folder is None
    with sessions.begin() as session:
        assert base_models.get(session, "llama").folder is None
    shutil.rmtree(folder)
    assert create(sessions, roots, ADAPT).state == "queued", "no folder is needed"
    four_bits = {**ADAPT, "training": {**ADAPT.get("training", {}), "base_weights": "nf4"}}
    with pytest.raises(InvalidSpec, match="Only base models that were imported from a folder"):
        create(sessions, roots, four_bits)


def test_an_adaptation_fails_with_the_import_that_it_waits_for(
    sessions: Sessions, roots: ModelRoots
) -> None:
    create(sessions, roots, IMPORT)
    waiting = create(sessions, roots, ADAPT)
    ledger = a_made_up_ledger(sessions)
    ledger.fail(a_claim(ledger), "user_error", "not finite", retry=False)
    assert state(sessions, waiting) == "failed"
    again = create(sessions, roots, IMPORT)
    assert again.state == "queued", "the name of a failed import can be used again"


def test_an_inline_import_is_made_once(sessions: Sessions, roots: ModelRoots) -> None:
    first = create(sessions, roots, {**ADAPT, "base_model": IMPORT})
    second = create(sessions, roots, {**ADAPT, "base_model": {**IMPORT, "name": "other"}})
    assert (first.state, first.base_model) == ("waiting", "llama")
    assert (second.state, second.base_model) == ("waiting", "llama")
    assert stored(sessions) == (3, 1)


def test_a_folder_can_be_read_for_longer_than_other_pauses(
    sessions: Sessions, roots: ModelRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network disk can take seconds, at an import and at each job on it."""

    def slowly(checked: CheckedFolder) -> tuple[ModelFile, ...]:
        time.sleep(0.5)
        return fingerprint(checked)

    for reader in (model_folders, placed_folder):
        monkeypatch.setattr(reader, "fingerprint", slowly)
    for document in (IMPORT, ADAPT):
        with sessions.begin() as session:
            principal = a_principal(session)
            session.execute(text("SET LOCAL idle_in_transaction_session_timeout = '300ms'"))
            jobs.create(session, principal, SPECS.validate_python(document), roots=roots)
            assert session.scalar(text("SHOW idle_in_transaction_session_timeout")) == "300ms"
    assert stored(sessions) == (2, 1)


def test_another_model_at_the_same_place_is_another_base_model(
    sessions: Sessions, roots: ModelRoots, folder: Path
) -> None:
    create(sessions, roots, {**ADAPT, "base_model": IMPORT})
    folder.rename(folder.with_name("old"))
    a_model_folder(folder, seed=5)
    with pytest.raises(StateConflict, match="'llama' already exists"):
        create(sessions, roots, {**ADAPT, "base_model": IMPORT})
    other = {**IMPORT, "name": "other"}
    assert create(sessions, roots, {**ADAPT, "base_model": other}).base_model == "other"


def test_a_preview_of_an_import_stores_nothing(sessions: Sessions, roots: ModelRoots) -> None:
    with sessions.begin() as session:
        for document in (IMPORT, {**ADAPT, "base_model": IMPORT}):
            preview = jobs.preview(session, SPECS.validate_python(document), roots=roots)
            assert preview.resolved_spec.family["name"] == "llama"
    assert stored(sessions) == (0, 0)


def test_without_roots_nothing_is_imported(sessions: Sessions) -> None:
    with pytest.raises(InvalidSpec, match="ADAPTLAB_MODEL_ROOTS"):
        create(sessions, ModelRoots({}), IMPORT)
