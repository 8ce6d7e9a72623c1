"""What an answer says when the bytes of a file are not to be had."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model

from adaptlab_db.tables import Artifact, ArtifactChunk
from adaptlab_services.settings import Settings
from adaptlab_services.storage.scrubbing import scrub

Sessions = sessionmaker[Session]


@pytest.fixture
def file(api: TestClient, sessions: Sessions) -> str:
    """The address of a checkpoint's content."""
    with sessions.begin() as session:
        job_id = a_base_model(session, contents=(b"weights",))
    (checkpoint,) = api.get(f"/v1/jobs/{job_id}/checkpoints").json()["data"]
    return str(checkpoint["links"]["content"])


def set_state(sessions: Sessions, state: str, **columns: object) -> None:
    with sessions.begin() as session:
        session.execute(update(Artifact).values(state=state, reason="It is told why.", **columns))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_was_collected_is_gone_and_the_reason_is_told(
    api: TestClient, sessions: Sessions, file: str, method: str
) -> None:
    set_state(sessions, "collected")
    answer = api.request(method, file)
    assert answer.status_code == 410
    if method == "GET":
        problem = answer.json()
        assert problem["type"] == "urn:adaptlab:problem:gone"
        assert problem["detail"].endswith("is collected: It is told why.")
    assert api.get(file.removesuffix("/content")).status_code == 200, "what it was is still known"


def test_who_has_it_already_needs_no_bytes(api: TestClient, sessions: Sessions, file: str) -> None:
    etag = api.get(file).headers["etag"]
    set_state(sessions, "collected")
    assert api.get(file, headers={"If-None-Match": etag}).status_code == 304


def test_damaged_bytes_are_not_sent(api: TestClient, sessions: Sessions, file: str) -> None:
    with sessions.begin() as session:
        session.execute(update(ArtifactChunk).values(content=b"weighty"))
    assert len(scrub(sessions).quarantined) == 1
    answer = api.get(file)
    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:adaptlab:problem:damaged"
    assert "another SHA-256" in answer.json()["detail"]
    (share,) = api.get("/v1/storage").json()["shares"]
    assert (share["store"], share["state"], share["artifacts"], share["bytes"]) == (
        "postgres", "quarantined", 1, 7,
    )  # fmt: skip


def test_a_store_that_is_not_set_up_here_is_told(
    api: TestClient, sessions: Sessions, file: str
) -> None:
    with sessions.begin() as session:
        session.execute(delete(ArtifactChunk))
        session.execute(update(Artifact).values(store="s3", key="aa/bb/cc"))
    answer = api.get(file)
    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:adaptlab:problem:store-unavailable"


def test_the_settings_name_what_a_store_needs() -> None:
    given = {"database_url": "postgresql://lab@host/db", "broker_url": "redis://host"}
    for store, needed in (("directory", "ADAPTLAB_ARTIFACT_FOLDER"), ("s3", "ADAPTLAB_S3_BUCKET")):
        with pytest.raises(ValueError, match=needed):
            Settings.model_validate(given | {"artifact_store": store})
    both = {"artifact_store": "directory", "artifact_folder": Path("/srv/artifacts")}
    secret = {"s3_secret_access_key": "not to be shown"}
    assert "not to be shown" not in repr(Settings.model_validate(given | both | secret))
