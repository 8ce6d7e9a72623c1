"""A job without its checkpoint is reused for its figures only."""

from uuid import UUID

import pytest
from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    a_base_model,
    a_claim,
    a_made_up_ledger,
    a_principal,
    a_study_spec,
    an_environment,
)

from adaptlab.runs.events import Started
from adaptlab.studies.study import StudyExtension
from adaptlab_answers.studies import StudyView
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import Artifact, CheckpointRow
from adaptlab_services.people.tokens import Principal
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

Sessions = sessionmaker[Session]
OF_LORA = {"name": "relative_attention", "of": "lora"}


@pytest.fixture
def ada(sessions: Sessions) -> Principal:
    """Somebody with a base model."""
    with sessions.begin() as session:
        a_base_model(session)
        return a_principal(session)


def create(sessions: Sessions, who: Principal, name: str, *checks: object) -> StudyView:
    spec = a_study_spec(name=name, methods=["lora"], budgets=[64], checks=checks)
    with sessions.begin() as session:
        return studies.create(session, who, spec, Rules()).study


def the_adaptation(study: StudyView) -> UUID:
    (job,) = [job for cell in study.cells for job in cell.jobs]
    return UUID(str(job.id))


@pytest.fixture
def made(sessions: Sessions, ada: Principal) -> UUID:
    """A job of the study `first` that succeeded."""
    job_id = the_adaptation(create(sessions, ada, "first"))
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    assert claim.job_id == job_id
    ledger.record(claim, [Started(environment=an_environment(), replicates=1)])
    with sessions.begin() as session:
        sha256 = ArtifactStore(session).write([b"of the adaptation"]).sha256
        row = {"job_id": job_id, "attempt": 1, "replicate": 0, "seed": 0, "kind": "adapter",
               "artifact_sha256": sha256, "parameters": 1, "tensors": {}}  # fmt: skip
        session.execute(insert(CheckpointRow), [row])
    ledger.finish(claim)
    return job_id


def collect(sessions: Sessions, job_id: UUID) -> None:
    with sessions.begin() as session:
        its = select(CheckpointRow.artifact_sha256).where(CheckpointRow.job_id == job_id)
        gone = {"state": "collected", "reason": "It was old."}
        session.execute(update(Artifact).where(Artifact.sha256.in_(its)).values(gone))


def test_a_check_gets_a_job_with_weights(sessions: Sessions, ada: Principal, made: UUID) -> None:
    assert the_adaptation(create(sessions, ada, "before", OF_LORA)) == made
    collect(sessions, made)
    assert the_adaptation(create(sessions, ada, "figures")) == made, "figures are all it needs"
    again = the_adaptation(create(sessions, ada, "weights", OF_LORA))
    assert again != made
    assert the_adaptation(create(sessions, ada, "more-weights", OF_LORA)) == again


def test_a_check_that_is_added_makes_the_studys_own_job_anew(
    sessions: Sessions, ada: Principal, made: UUID
) -> None:
    collect(sessions, made)
    extension = StudyExtension.model_validate({"checks": [OF_LORA]})
    with sessions.begin() as session:
        study = studies.extend(session, ada, "first", extension, Rules()).study
    assert the_adaptation(study) != made
