"""The page of a job on texts says what the model reads and answers."""

from html import unescape

from fastapi.testclient import TestClient
from tests.pages.reading import text_of
from tests.texts import CLASSIFICATION, reviews, without

from adaptlab_api.app import create_app
from adaptlab_services.settings import Settings

SPEC = {
    "kind": "pretrain",
    "name": "reader",
    "family": {"name": "minigpt", "layers": 1, "heads": 2, "width": 8},
    "task": without(
        CLASSIFICATION,
        prompt="Review: {text}\nIt is",
        label={"field": "label", "words": {"neg": " bad", "pos": "good"}},
        tokens={"longest": 64},
    ),
}


def test_the_task_is_shown_in_words(reader: TestClient, settings: Settings, token: str) -> None:
    signed = {"Authorization": f"Bearer {token}"}
    with TestClient(create_app(settings), headers=signed) as api:
        made = api.post("/v1/datasets", json={"name": "reviews", "records": reviews(60)})
        assert made.status_code == 201, made.text
        job = api.post("/v1/jobs", json=SPEC)
        assert job.status_code == 201, job.text
    page = unescape(text_of(reader.get(f"/jobs/{job.json()['id']}").text))
    assert 'prompt "Review: {text}\\nIt is"' in page
    assert 'words (neg " bad", pos good)' in page
    assert f"digest {made.json()['digest'][:12]}," in page
    assert "{'" not in page
    assert "classes none" not in page, "what is not set is not shown"
    assert "This job does not record attention" in page
