"""Previews of jobs and studies warn of test items that are not scored."""

from typing import Any

from fastapi.testclient import TestClient
from tests.text_studies import RECORDS, a_text_study
from tests.texts import COMPLETION

FEW = {**COMPLETION, "splits": {"validation": 0.1, "test": 0.05, "by": "text"}}
PREVIEW = {"validate_only": "true"}


def preview(api: TestClient, path: str, document: dict[str, Any]) -> list[str]:
    answer = api.post(path, json=document, params=PREVIEW)
    assert answer.status_code == 200, answer.text
    warnings: list[str] = answer.json()["warnings"]
    return [text for text in warnings if "test items" in text and "rarely decide" not in text]


def test_a_preview_names_the_task_that_limits_the_others(api: TestClient) -> None:
    made = api.post("/v1/datasets", json={"name": "reviews", "records": RECORDS})
    assert made.status_code == 201, made.text
    study = a_text_study(dict(COMPLETION))
    base = {**study["base_models"][0], "evaluation": {"tasks": [COMPLETION, FEW]}}
    (warning,) = preview(api, "/v1/jobs", base)
    assert warning.startswith("Every task is scored on ")
    assert "splits={validation: 0.1, test: 0.05, by: text}) has no more" in warning
    del study["evaluation"]
    of_base = {**study["base_models"][0], "task": {**FEW, "tokens": {"longest": 64}}}
    (warning,) = preview(api, "/v1/studies", {**study, "base_models": [of_base]})
    assert warning.startswith("Every task is scored on ")
    assert preview(api, "/v1/studies", a_text_study(dict(COMPLETION))) == []
