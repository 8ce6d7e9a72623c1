"""Test items that are not scored: where previews of jobs and studies warn."""

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


def test_a_task_with_few_items_limits_no_other(api: TestClient) -> None:
    made = api.post("/v1/datasets", json={"name": "reviews", "records": RECORDS})
    assert made.status_code == 201, made.text
    study = a_text_study(dict(COMPLETION))
    base = {**study["base_models"][0], "evaluation": {"tasks": [COMPLETION, FEW]}}
    assert preview(api, "/v1/jobs", base) == []
    assert preview(api, "/v1/studies", a_text_study(dict(COMPLETION))) == []
    resolved = api.post("/v1/jobs", json=base).json()["resolved_spec"]
    few, more = (
        task["dataset"]["splits"]["test"]
        for task in sorted(resolved["evaluation_tasks"], key=lambda one: one["splits"]["test"])
    )
    assert few < more == resolved["evaluation_samples"]
