"""Recipes over HTTP: descriptions, studies and reports."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.api.stored import fault, stored
from tests.making import a_base_model, a_study_document

Sessions = sessionmaker[Session]
TABLE_1 = "petrov2024/table-1"
QUICK = {"recipe": TABLE_1, "preset": "quick", "seeds": 3}


def test_recipes_are_listed_and_shown(api: TestClient) -> None:
    listed = {one["name"]: one for one in api.get("/v1/recipes").json()["data"]}
    assert listed[TABLE_1]["presets"] == ["quick", "faithful", "fair"]
    answer = api.get(listed[TABLE_1]["links"]["self"])
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert shown["question"].endswith("?")
    (table,) = shown["tables"]
    # Table 1 of the paper: the pretrained model has 91 ± 5 % on the ascending task.
    assert table["rows"][0]["published"][0] == {"mean": 0.91, "spread": 0.05}
    first = shown["claims"][0]["wordings"]
    assert list(first) == list(shown["versions"]) == ["arxiv_v1", "iclr"]
    assert first["arxiv_v1"]["text"] != first["iclr"]["text"]
    quick = shown["presets"][0]
    assert (quick["preset"], quick["spec"]["seeds"]) == ("quick", 10)
    assert "minutes" in quick["note"]
    known = {"If-None-Match": answer.headers["etag"]}
    assert api.get(f"/v1/recipes/{TABLE_1}", headers=known).status_code == 304


def test_a_slash_in_a_name_may_be_escaped(api: TestClient) -> None:
    assert api.get("/v1/recipes/petrov2024%2Ftable-1").json()["name"] == TABLE_1


@pytest.mark.parametrize("name", ["petrov2024/table-11", "table-1", "a/b/c"])
def test_a_recipe_that_is_not_there_is_said_not_to_be(api: TestClient, name: str) -> None:
    answer = api.get(f"/v1/recipes/{name}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert f"There is no recipe '{name}'" in answer.json()["detail"]


def test_the_spec_of_a_preset_can_be_changed_and_posted(api: TestClient) -> None:
    quick = api.get(f"/v1/recipes/{TABLE_1}").json()["presets"][0]
    changed = quick["spec"] | {"name": "mine", "seeds": 2}
    answer = api.post("/v1/studies?validate_only=true", json=changed)
    assert answer.status_code == 200, answer.text


def test_a_study_is_made_from_a_recipe(api: TestClient, sessions: Sessions) -> None:
    answer = api.post("/v1/studies", json=QUICK)
    assert answer.status_code == 201, answer.text
    study = answer.json()
    assert answer.headers["location"] == f"/v1/studies/{study['id']}"
    assert study["name"] == "petrov2024-table-1-quick"
    assert study["recipe"] == {"name": TABLE_1, "preset": "quick"}
    assert study["spec"]["seeds"] == 3
    assert api.get("/v1/studies").json()["data"][0]["recipe"] == study["recipe"]
    # Another one is made beside it, of the same jobs.
    second = api.post("/v1/studies", json=QUICK).json()
    assert second["name"] == "petrov2024-table-1-quick-2"
    assert stored(sessions) == (2, len(study["cells"]) + len(study["base_models"]))


def test_a_study_of_a_recipe_has_the_name_and_resources_that_are_asked_for(
    api: TestClient,
) -> None:
    named = QUICK | {"name": "mine", "labels": {"paper": "mine"}, "resources": {"queue": "gpu"}}
    study = api.post("/v1/studies", json=named).json()
    assert (study["name"], study["spec"]["resources"]) == ("mine", {"queue": "gpu"})
    assert study["spec"]["labels"]["paper"] == "mine"
    assert api.post("/v1/studies", json=named).status_code == 409


REFUSED: list[Any] = [
    ({"recipe": "petrov2024/table-11"}, "/recipe", "unknown_recipe"),
    ({"preset": "quik"}, "/preset", "literal_error"),
    ({"seeds": "3"}, "/seeds", "int_type"),
    ({"budgets": [64]}, "/budgets", "recipe_and_spec"),
    ({"sead": 1}, "/sead", "extra_forbidden"),
    ({"recipe": "petrov2024/theorems"}, "/seeds", "nothing_to_seed"),
]


def test_what_cannot_be_asked_for_is_said_with_its_place(api: TestClient) -> None:
    for changes, pointer, code in REFUSED:
        found = fault(api.post("/v1/studies", json=QUICK | changes))
        assert (found["pointer"], found["code"]) == (pointer, code)


def test_a_misspelt_name_brings_the_nearest_ones(api: TestClient) -> None:
    found = fault(api.post("/v1/studies", json=QUICK | {"recipe": "petrov2024/tabel-1"}))
    assert found["nearest"][0] == TABLE_1
    assert TABLE_1 in found["allowed"]
    found = fault(api.post("/v1/studies", json=QUICK | {"preset": "quik"}))
    assert found["allowed"] == ["quick", "small", "faithful", "fair", "text"]


def test_a_recipe_and_a_spec_in_one_body_are_refused_member_by_member(api: TestClient) -> None:
    answer = api.post("/v1/studies", json=QUICK | a_study_document())
    assert answer.status_code == 422
    faults = answer.json()["errors"]
    assert {one["code"] for one in faults} == {"recipe_and_spec"}
    assert "/methods" in {one["pointer"] for one in faults}
    assert "Leave out one of the two" in faults[0]["detail"]


def test_a_preset_without_a_recipe_misses_the_recipe(api: TestClient) -> None:
    assert fault(api.post("/v1/studies", json={"preset": "quick"}))["pointer"] == "/recipe"


def test_a_report_comes_before_anything_is_measured(api: TestClient) -> None:
    study = api.post("/v1/studies", json=QUICK).json()
    answer = api.get(f"/v1/studies/{study['name']}/report")
    assert answer.status_code == 200, answer.text
    said = answer.json()
    assert (said["recipe"], said["preset"], said["departures"]) == (TABLE_1, "quick", [])
    assert said["study"]["name"] == study["name"]
    assert {one["finding"] for one in said["claims"]} == {"not_measured"}
    cell = said["tables"][0]["rows"][0]["cells"][0]
    assert (cell["published"]["mean"], cell["state"]) == (0.91, "not_measured")
    known = {"If-None-Match": answer.headers["etag"]}
    assert api.get(said["links"]["self"], headers=known).status_code == 304


def test_a_study_of_no_recipe_has_no_report(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session)
    api.post("/v1/studies", json=a_study_document())
    answer = api.get("/v1/studies/small/report")
    assert answer.status_code == 404
    assert "not created from a recipe" in answer.json()["detail"]
    assert "There is no study" in api.get("/v1/studies/nobody/report").json()["detail"]
