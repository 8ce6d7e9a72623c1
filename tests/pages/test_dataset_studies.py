"""The study that the pages propose for a dataset and an encoder."""

import html
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.api.rooted import with_a_root
from tests.folders import a_sentence_encoder
from tests.pages import submitting as forms
from tests.pages.reading import text_of
from tests.pages.submitting import admin as admin
from tests.pages.submitting import browser as browser
from tests.texts import a_word_piece_tokeniser, reviews

from adaptlab_services.settings import Settings

PROPOSED = "/studies/new?dataset=reviews"


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path) -> Settings:
    """Settings with a model root, in which an encoder lies."""
    folder = a_sentence_encoder(tmp_path / "root" / "sentences", vocabulary=300)
    texts = [record["text"] for record in reviews(100)]
    (folder / "tokenizer.json").write_bytes(a_word_piece_tokeniser(texts))
    return with_a_root(database_url, broker_url, tmp_path, tmp_path / "root")


@pytest.fixture
def visitor(admin: TestClient) -> TestClient:
    """The admin of a server with reviews, and an encoder on its way."""
    body = {"name": "reviews", "records": reviews(200)}
    assert admin.post("/v1/datasets", json=body, headers=forms.HERE).status_code == 201
    imported = {"kind": "import", "name": "sentences", "folder": "models/sentences"}
    assert admin.post("/v1/jobs", json=imported, headers=forms.HERE).status_code == 201
    return admin


def test_the_proposed_study_of_an_encoder_is_one_that_can_be_created(visitor: TestClient):
    page = visitor.get(PROPOSED).text
    study = forms.shown_json(page)
    assert study["base_models"] == ["sentences"]
    assert study["tasks"][0]["score"] == "head", "an encoder has no words to answer with"
    assert study["seeds"] == 5
    assert study["capture"] == {"attention": {"samples": 8}}
    sent = forms.sent(visitor, "/studies/new", forms.fields_of(page))
    assert sent.status_code == 303, text_of(sent.text)
    made = visitor.get(f"/v1{sent.headers['location']}").json()
    assert {"name": "head_only"} in made["spec"]["methods"]


def test_a_time_sets_the_effort(visitor: TestClient):
    usual = forms.shown_json(visitor.get(PROPOSED).text)
    page = visitor.get(f"{PROPOSED}&minutes=600").text
    assert forms.shown_json(page)["training"] == usual["training"]
    assert "that fit 600 minutes" in html.unescape(text_of(page))
    assert visitor.get(f"{PROPOSED}&minutes=0").status_code == 422
