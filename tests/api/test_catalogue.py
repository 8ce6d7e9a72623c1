"""What can be asked for, and what a budget buys of it."""

from itertools import groupby
from operator import itemgetter
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_pretrain_document, an_adapt_document

from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.task import TASKS

FAMILY = {"name": "minigpt", "width": 96, "layers": 1, "heads": 1}


@pytest.mark.parametrize(
    ("noun", "registry"), [("methods", METHODS), ("tasks", TASKS), ("families", FAMILIES)]
)
def test_everything_registered_describes_itself(api: TestClient, noun: str, registry: Any) -> None:
    entries = api.get(f"/v1/{noun}").json()["data"]
    assert sorted(entry["name"] for entry in entries) == sorted(registry.names())
    for entry in entries:
        assert api.get(f"/v1/{noun}/{entry['name']}").json() == entry
        assert entry["title"]
        assert entry["summary"]
        assert entry["reference"]
        assert entry["name"] == entry["knobs"]["properties"]["name"]["const"]


def test_methods_are_grouped_and_the_most_used_come_first(api: TestClient) -> None:
    groups = {group: [*found] for group, found in groupby(
        api.get("/v1/methods").json()["data"], key=itemgetter("group")
    )}  # fmt: skip
    assert list(groups) == ["weights", "prompts", "searches", "controls"]
    first = {group: entries[0]["name"] for group, entries in groups.items()}
    assert first == {
        "weights": "lora",
        "prompts": "prefix_tuning",
        "searches": "autoprompt",
        "controls": "frozen",
    }


def test_a_method_tells_its_size_and_its_claim(api: TestClient) -> None:
    prefix = api.get("/v1/methods/prefix_tuning").json()
    assert (prefix["size_knob"], prefix["first_layer_attention"]) == ("length", "cannot_change")
    assert "length" in prefix["knobs"]["properties"]


def test_a_method_has_its_learning_rates_on_large_base_models(api: TestClient) -> None:
    rates = api.get("/v1/methods/lora").json()["large_base_rates"]
    assert rates == {
        "from_parameters": 10_000_000,
        "default_learning_rate": 5e-3,
        "learning_rate_range": [3e-4, 0.1],
    }
    assert api.get("/v1/methods/ia3").json()["large_base_rates"] is None, "the same everywhere"


def test_a_task_made_of_others_says_how_they_are_named_and_is_taken_as_it_says(
    api: TestClient,
) -> None:
    schema = api.get("/v1/tasks/mixture").json()["knobs"]["properties"]["tasks"]
    assert {kind["type"] for kind in schema["items"]["anyOf"]} == {"string", "object"}
    document = a_pretrain_document(task={"name": "mixture", "tasks": schema["default"]})
    job = api.post("/v1/jobs?validate_only=true", json=document)
    assert job.status_code == 200, job.text
    resolved = job.json()["resolved_spec"]["task"]
    assert [task["name"] for task in resolved["tasks"]] == [t["name"] for t in schema["default"]]
    again = api.post("/v1/jobs?validate_only=true", json={**document, "task": resolved})
    assert again.json()["resolved_spec"] == job.json()["resolved_spec"]
    answers = solved(api, family=FAMILY, task=resolved, budget=960, methods=["prefix_tuning"])
    assert answers["prefix_tuning"]["method"]["length"] == 10
    document["task"]["tasks"] = ["copy", {"name": "copy", "length": 3}]
    refused = api.post("/v1/jobs?validate_only=true", json=document)
    assert refused.status_code == 422
    (fault, *_) = refused.json()["errors"]
    assert (fault["pointer"], fault["nearest"]) == ("/task/tasks/1/length", [10])


def solved(api: TestClient, **question: Any) -> dict[str, dict[str, Any]]:
    answer = api.post("/v1/budgets/solve", json=question)
    assert answer.status_code == 200, answer.text
    return {entry["name"]: entry for entry in answer.json()["data"]}


def test_a_budget_is_solved_for_every_method(api: TestClient) -> None:
    answers = solved(api, family=FAMILY, task="sort_ascending", budget=1000)
    assert set(answers) == set(METHODS.names())
    # One layer of width 96: a prefix or prompt row has 96 parameters, so 10 rows fit 1000. LoRA
    # at q and v has 2 · (96 + 96) parameters a rank, so 2 ranks fit.
    for name in ("prefix_tuning", "soft_prompt"):
        assert answers[name]["method"]["length"] == 10
        assert answers[name]["budget"]["trainable_parameters"] == 960
        assert answers[name]["budget"]["gap"] == 40
        assert answers[name]["budget"]["extra_context_tokens"] == 10
    assert answers["lora"]["method"]["rank"] == 2
    assert answers["lora"]["budget"]["tensors"] == {
        "blocks.0.attn.q.a": 192,
        "blocks.0.attn.q.b": 192,
        "blocks.0.attn.v.a": 192,
        "blocks.0.attn.v.b": 192,
    }
    full = answers["full_finetuning"]
    assert (full["feasible"], full["budget"]) == (False, None)
    assert full["problems"][0]["code"] == "infeasible_budget"


def test_a_budget_too_small_names_the_nearest(api: TestClient) -> None:
    answers = solved(
        api, family=FAMILY, task="sort_ascending", budget=50, methods=["prefix_tuning", "lora"]
    )
    assert {name: entry["nearest"] for name, entry in answers.items()} == {
        "prefix_tuning": [96],
        "lora": [384],
    }


def test_the_answer_for_a_stored_model_is_what_a_job_gets(
    api: TestClient, sessions: sessionmaker[Session]
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
    for method in METHODS.names():
        if METHODS.get(method).moves_content:
            continue  # the length of demonstrations follows from the task
        entry = solved(api, base_model="tiny-sort", budget=100_000, methods=[method])[method]
        asked = an_adapt_document(method=method, budget=100_000)
        job = api.post("/v1/jobs?validate_only=true", json=asked).json()
        assert entry["budget"] == job["budget"]
        assert entry["method"] == job["resolved_spec"]["method"]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"budget": 96}, "/base_model"),
    "two models": ({"base_model": "x", "family": FAMILY, "budget": 96}, "/base_model"),
    "an unknown model": ({"base_model": "x", "budget": 96}, "/base_model"),
    "no task": ({"family": FAMILY, "budget": 96}, "/task"),
    "an unknown family": ({"family": "gpt9", "task": "add", "budget": 96}, "/family/name"),
    "an unknown method": (
        {"family": FAMILY, "task": "add", "budget": 96, "methods": ["lora", "lorra"]},
        "/methods/1/name",
    ),
    "a wrong knob": (
        {"family": FAMILY, "task": "add", "methods": [{"name": "lora", "rank": "x"}]},
        "/methods/0/rank",
    ),
    "a text for a number": ({"base_model": "x", "budget": "96"}, "/budget"),
}


def test_a_question_that_makes_no_sense(api: TestClient) -> None:
    for what, (question, pointer) in WRONG.items():
        answer = api.post("/v1/budgets/solve", json=question)
        assert answer.status_code == 422, what
        assert pointer in [f["pointer"] for f in answer.json()["errors"]], what


def test_a_family_may_be_inline_in_a_job_as_in_a_question(api: TestClient) -> None:
    base = a_pretrain_document(family=FAMILY, task="sort_ascending")
    job = api.post(
        "/v1/jobs?validate_only=true",
        json=an_adapt_document(base_model=base, task="sort_descending", budget=960),
    ).json()
    answers = solved(api, family=FAMILY, task="sort_ascending", budget=960)
    assert answers["prefix_tuning"]["budget"] == job["budget"]


def test_the_server_tells_its_limits_and_names(api: TestClient) -> None:
    told = api.get("/v1/capabilities").json()
    assert sorted(told["methods"]) == sorted(METHODS.names())
    assert told["limits"]["body_bytes"] == 2**20
    assert "queued" in told["job_states"]
