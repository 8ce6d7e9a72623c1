"""The form that pushes an adapter of a job to the hub."""

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.adapters import an_adapter
from tests.pages.reading import text_of
from tests.pages.submitting import HERE
from tests.pages.submitting import admin as admin
from tests.pages.submitting import browser as browser

from adaptlab_services.settings import Settings


@pytest.fixture
def settings(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of a server that may push, and whose fetcher does not run."""
    monkeypatch.setattr("adaptlab_services.hub.fetcher.Fetcher.start", lambda _: None)
    return settings.model_copy(update={"hub": "on"})


def test_an_adapter_is_pushed_from_the_page_of_its_job(
    admin: TestClient, sessions: sessionmaker[Session]
) -> None:
    with sessions.begin() as session:
        checkpoint, *_ = an_adapter(session, {"name": "lora", "rank": 1})
    job = admin.get(f"/v1/checkpoints/{checkpoint}").json()["job_id"]
    form = {"checkpoint": str(checkpoint), "repository": "lab/adapter"}
    admin.headers.update(HERE)

    def push() -> int:
        return admin.post(f"/jobs/{job}/push", data=form, follow_redirects=False).status_code

    assert push() == 422  # without a token
    assert admin.put("/v1/hub-token", json={"token": "hf_canary-1234"}).status_code == 200
    assert push() == 303
    shown = text_of(admin.get(f"/jobs/{job}").text)
    assert f"Push of checkpoint {checkpoint} to lab/adapter : pending" in " ".join(shown.split())
    assert "Push of" not in text_of(admin.get("/base-models").text)
