"""Jobs and studies watch benchmarks that are staged on the server."""

from collections.abc import Sequence
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.benchmarks import rendering
from tests.text_studies import RECORDS, a_text_study
from tests.texts import COMPLETION

from adaptlab.records.rendered_items import RenderedItem, dataset_of

PREVIEW = {"validate_only": "true"}
CHOICES = RenderedItem(0, ("Q:", "Q:"), (" a", " b"), ("a", "b"), 1)
PASSAGE = RenderedItem(0, ("Die Vögel",), (" singen",), (" singen",), 0)
LIMITS = {"longest": 40}


@pytest.fixture
def lab(api: TestClient) -> TestClient:
    """The API with records and two staged tasks."""
    stage(api, "reviews", RECORDS)
    stage(api, dataset_of("arc_easy", 0), [CHOICES.record(rendering("arc_easy"))])
    passages = rendering("lambada_openai", output="loglikelihood", choices=1, chance=1.0)
    stage(api, dataset_of("lambada_openai", 0), [PASSAGE.record(passages)])
    return api


def stage(api: TestClient, name: str, records: Sequence[dict[str, str]]) -> None:
    made = api.post("/v1/datasets", json={"name": name, "records": list(records)})
    assert made.status_code == 201, made.text


def watching(*tasks: str, **changes: Any) -> dict[str, Any]:
    benchmark = {"name": "benchmark", "tasks": list(tasks), "tokens": LIMITS, **changes}
    return {"tasks": [COMPLETION, benchmark], "samples": 9}


def a_job(evaluation: dict[str, Any]) -> dict[str, Any]:
    return {**a_text_study(dict(COMPLETION))["base_models"][0], "evaluation": evaluation}


def test_each_staged_task_is_evaluated(lab: TestClient) -> None:
    job = a_job(watching("arc_easy", "lambada_openai"))
    answer = lab.post("/v1/jobs", json=job, params=PREVIEW)
    assert answer.status_code == 200, answer.text
    tasks = answer.json()["resolved_spec"]["evaluation_tasks"]
    assert [task.get("tasks") for task in tasks] == [None, ["arc_easy"], ["lambada_openai"]]
    assert tasks[1]["rendering"]["output"] == "multiple_choice"
    assert tasks[1]["dataset"]["name"] == "arc_easy-0-shots"
    study = {**a_text_study(dict(COMPLETION)), "evaluation": watching("arc_easy")}
    assert lab.post("/v1/studies", json=study, params=PREVIEW).status_code == 200


def test_the_own_task_is_scored_beside_watched_ones(lab: TestClient) -> None:
    evaluation = watching("arc_easy")
    evaluation["tasks"] = evaluation["tasks"][1:]
    answer = lab.post("/v1/jobs", json=a_job(evaluation), params=PREVIEW)
    tasks = answer.json()["resolved_spec"]["evaluation_tasks"]
    assert [task["name"] for task in tasks] == ["text_completion", "benchmark"]
    study = {**a_text_study(dict(COMPLETION)), "evaluation": evaluation}
    assert lab.post("/v1/studies", json=study, params=PREVIEW).status_code == 200


def test_refusals_point_to_the_choice_in_the_spec(lab: TestClient) -> None:
    def pointers(evaluation: dict[str, Any]) -> list[str]:
        answer = lab.post("/v1/jobs", json=a_job(evaluation))
        assert answer.status_code == 422, answer.text
        return [error["pointer"] for error in answer.json()["errors"]]

    assert pointers(watching("arc_easy", "sciq")) == ["/evaluation/tasks/1/tasks/1"]
    short = {**LIMITS, "answer": 5}
    both = watching("arc_easy", "lambada_openai", tokens=short)
    assert pointers(both) == ["/evaluation/tasks/1/tokens/answer"], "found in a passage"


def test_a_benchmark_is_no_task_to_train(lab: TestClient) -> None:
    job = {**a_job({}), "task": watching("arc_easy")["tasks"][1]}
    answer = lab.post("/v1/jobs", json=job)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert (error["pointer"], error["code"]) == ("/task/name", "only_evaluated")
