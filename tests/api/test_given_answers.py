"""`GET /v1/jobs/{id}/answers`: items with answers, filters and refusals."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    a_base_model,
    a_claim,
    a_job,
    a_ledger,
    an_adapt_spec,
    an_evaluation,
    answers_given,
    items_shown,
)

from adaptlab.runs import events

Sessions = sessionmaker[Session]


@pytest.fixture(scope="module")
def job(shared_sessions: Sessions) -> str:
    """The address of a job with answers of two seeds, and of their bases."""
    with shared_sessions.begin() as session:
        a_base_model(session)
        a_job(session, an_adapt_spec())
    claim = a_claim(ledger := a_ledger(shared_sessions))
    alone = {"correct": 4, "outcomes": "f000", "attached": False}
    ledger.record(
        claim,
        [
            items_shown(),
            *(events.Evaluated(evaluation=an_evaluation(seed)) for seed in (0, 1)),
            *(events.Evaluated(evaluation=an_evaluation(seed, **alone)) for seed in (0, 1)),
            *(answers_given(seed) for seed in (0, 1)),
            *(answers_given(seed, 4, attached=False) for seed in (0, 1)),
        ],
    )
    return f"/v1/jobs/{claim.job_id}"


def rows(api: TestClient, address: str, **parameters: Any) -> list[dict[str, Any]]:
    answer = api.get(f"{address}/answers", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_an_item_has_its_texts_and_outcomes(shared_api: TestClient, job: str) -> None:
    assert shared_api.get(job).json()["links"]["answers"] == f"{job}/answers"
    assert rows(shared_api, job, seed=1)[13] == {
        "task_place": 0,
        "task_name": "sort_descending",
        "item": 13,
        "line": None,
        "prompt": {"text": "1 0 1", "characters": 5},
        "expected": {"text": "1 0 0", "characters": 5, "label": None},
        "replicate": 1,
        "seed": 1,
        "attached": {"text": "3 3 1", "characters": 5, "label": None, "right": False},
        "detached": {"text": "3 3 1", "characters": 5, "label": None, "right": False},
        "other": None,
    }


@pytest.mark.parametrize(
    ("parameters", "items"),
    [
        ({"outcome": "wrong"}, range(12, 16)),
        ({"outcome": "right"}, range(12)),
        ({"differs": "true"}, range(4, 12)),
        ({"task": "sort_descending"}, range(16)),
        ({"task": "sort_ascending"}, ()),
        ({"task_place": 1}, ()),
    ],
)
def test_filters_select_items(
    shared_api: TestClient, job: str, parameters: dict[str, Any], items: range
) -> None:
    assert [row["item"] for row in rows(shared_api, job, seed=0, **parameters)] == list(items)


def test_pages_are_linked_by_tokens(shared_api: TestClient, job: str) -> None:
    first = shared_api.get(f"{job}/answers", params={"page_size": 30}).json()
    assert len(first["data"]) == 30
    rest = rows(shared_api, job, page_size=30, page_token=first["next_page_token"])
    assert [(row["item"], row["seed"]) for row in rest] == [(15, 0), (15, 1)]


@pytest.mark.parametrize(
    "parameters",
    [
        {"outcome": "good"},
        {"seed": -1},
        {"differs": "perhaps"},
        {"page_token": "x"},
        {"task": "x" * 64},
        {"with": "x" * 65},
        {"with": "zz"},
    ],
)
def test_bad_parameters_are_refused(
    shared_api: TestClient, job: str, parameters: dict[str, Any]
) -> None:
    answer = shared_api.get(f"{job}/answers", params=parameters)
    assert answer.status_code in (404, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_job_is_compared_with_another_by_a_short_id(shared_api: TestClient, job: str) -> None:
    own = job.rsplit("/", 1)[1]
    assert rows(shared_api, job, **{"with": own[:8]}) == []
    unknown = shared_api.get(
        f"{job}/answers", params={"with": "00000000-0000-0000-0000-000000000001"}
    )
    assert unknown.status_code == 404


def test_a_job_without_answers_has_an_empty_page(
    shared_api: TestClient, shared_sessions: Sessions
) -> None:
    with shared_sessions.begin() as session:
        job_id = a_job(session)
    answer = shared_api.get(f"/v1/jobs/{job_id}/answers").json()
    assert answer == {"data": [], "next_page_token": None}
