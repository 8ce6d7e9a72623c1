"""The pages of an imported model, which has no task and was not trained here."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.folders import a_model_folder
from tests.making import a_principal
from tests.pages.made_up import SPEC

from adaptlab_api.app import create_app
from adaptlab_services.jobs import jobs
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.settings import Settings


@pytest.fixture
def client(settings: Settings, token: str) -> Iterator[TestClient]:
    """Somebody who is signed in."""
    with TestClient(create_app(settings), headers={"Accept": "text/html"}) as made:
        here = {"Sec-Fetch-Site": "same-origin"}
        assert made.post("/login", data={"token": token}, headers=here).is_success
        yield made


def test_an_import_is_shown_without_the_training_it_never_had(
    client: TestClient, sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    a_model_folder(tmp_path / "root" / "llama")
    document = {"kind": "import", "name": "my-llama", "folder": "models/llama"}
    with sessions.begin() as session:
        roots = ModelRoots({"models": tmp_path / "root"})
        spec = SPEC.validate_python(document)
        job = jobs.create(session, a_principal(session), spec, roots=roots).job
    listed, shown, models, model = (
        client.get(path).text
        for path in ("/", f"/jobs/{job.id}", "/base-models", "/base-models/my-llama")
    )
    assert "my-llama" in listed
    assert "Import of my-llama" in shown
    assert "from the folder models/llama" in shown
    assert "Gradient clip" not in shown
    assert ">imported</td>" in models
    assert "Workers read them from the folder <bdi>models/llama</bdi>" in model
    assert all(str(tmp_path) not in page for page in (listed, shown, models, model))
