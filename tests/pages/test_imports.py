"""The pages of an imported model, without a task or training here."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.folders import a_bert_folder, a_model_folder, a_qwen3_folder
from tests.making import a_principal, an_adapt_document
from tests.pages.made_up import SPEC

from adaptlab_answers.attention import MapView
from adaptlab_answers.jobs import JobView
from adaptlab_api.app import create_app
from adaptlab_api.pages.attention.view import answer_place
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


def created(sessions: sessionmaker[Session], root: Path, document: Mapping[str, object]) -> JobView:
    """A job of the admin, on a server with one model root."""
    with sessions.begin() as session:
        roots = ModelRoots({"models": root})
        return jobs.create(
            session, a_principal(session), SPEC.validate_python(document), roots=roots
        ).job


@pytest.mark.parametrize("make", [a_model_folder, a_qwen3_folder, a_bert_folder])
def test_every_imported_model_has_its_size_on_its_page_and_in_the_list(
    client: TestClient,
    sessions: sessionmaker[Session],
    tmp_path: Path,
    make: Callable[[Path], Path],
) -> None:
    """Sizes in the configuration of a library family: pages answered 500."""
    make(tmp_path / "root" / "mine")
    created(
        sessions, tmp_path / "root", {"kind": "import", "name": "mine", "folder": "models/mine"}
    )
    listed, shown = (client.get(path) for path in ("/base-models", "/base-models/mine"))
    assert (listed.status_code, shown.status_code) == (200, 200)
    assert "2 × 8, 2 heads" in listed.text
    assert "2 layers of width 8, 2 heads" in shown.text


@pytest.mark.parametrize(("make", "place"), [(a_model_folder, 4), (a_bert_folder, 3)])
def test_an_answer_follows_its_position_or_is_masked_at_it(
    sessions: sessionmaker[Session], tmp_path: Path, make: Callable[[Path], Path], place: int
) -> None:
    make(tmp_path / "root" / "mine")
    base = {"kind": "import", "name": "mine", "folder": "models/mine"}
    document = an_adapt_document(base_model=base, method={"name": "lora", "rank": 1}, budget={})
    job = created(sessions, tmp_path / "root", document)
    view = MapView.model_construct(target_start=3)
    assert answer_place(view, job.resolved_spec) == place
