"""Lists of jobs and studies name the datasets of their tasks."""

from html import unescape

from fastapi.testclient import TestClient
from tests.making import a_pretrain_document
from tests.pages.reading import text_of
from tests.text_studies import BY_F1, RECORDS, a_text_study
from tests.texts import CLASSIFICATION

from adaptlab_api.app import create_app
from adaptlab_services.settings import Settings

DIGITS = {"name": "sort_ascending", "length": 3, "alphabet": 4}
THREE = [BY_F1, dict(CLASSIFICATION), {**CLASSIFICATION, "prompt": "{text}, so"}]


def words_of(reader: TestClient, path: str) -> str:
    return " ".join(unescape(text_of(reader.get(path).text)).split())


def test_lists_name_the_dataset_of_a_task(
    reader: TestClient, settings: Settings, token: str
) -> None:
    signed = {"Authorization": f"Bearer {token}"}
    with TestClient(create_app(settings), headers=signed) as api:
        for path, body in (
            ("/v1/datasets", {"name": "reviews", "records": RECORDS}),
            ("/v1/studies", a_text_study(*THREE)),
            ("/v1/jobs", a_pretrain_document(name="sorter", task=DIGITS)),
        ):
            made = api.post(path, json=body)
            assert made.status_code == 201, made.text
        assert made.json()["dataset"] is None
        listed = {job["task"]: job["dataset"] for job in api.get("/v1/jobs").json()["data"]}
        assert listed == {
            "text_completion": "reviews",
            "text_classification": "reviews",
            "sort_ascending": None,
        }
        (study,) = api.get("/v1/studies").json()["data"]
        expected = ["text_completion of reviews", "text_classification of reviews",
                    "text_classification of reviews (prompt={text}, so)"]  # fmt: skip
        assert study["tasks"] == expected
        assert api.get("/v1/studies/texts").json()["tasks"] == expected
        summary = api.get("/v1/jobs", params={"view": "basic"}).json()["data"][-1]
        assert api.get(f"/v1/jobs/{summary['id']}").json()["dataset"] == summary["dataset"]
    jobs = words_of(reader, "/")
    assert "text completion of reviews" in jobs
    assert "sort ascending of" not in jobs
    studies = words_of(reader, "/studies")
    assert "text_completion of reviews , text_classification of reviews and 1 more" in studies
