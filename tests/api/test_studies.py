"""Studies over HTTP: answers, refusals and repeated requests."""

from typing import Any

import pytest
import redis
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.api.stored import fault, stored
from tests.making import (
    a_pretrain_document,
    a_study_document,
    a_token,
    an_adapt_document,
)

Sessions = sessionmaker[Session]


def test_a_study_is_created(api: TestClient, base: None) -> None:
    answer = api.post("/v1/studies", json=a_study_document())
    assert answer.status_code == 201, answer.text
    study = answer.json()
    assert answer.headers["location"] == f"/v1/studies/{study['id']}"
    assert study["state"] == "running"
    assert study["owner"] == "ada"
    assert study["spec"] == a_study_document() | {
        "methods": [{"name": name} for name in a_study_document()["methods"]],
        "budgets": [{"trainable_parameters": 32}, {"trainable_parameters": 64}],
    }
    assert len(study["cells"]) == 8


@pytest.mark.usefixtures("patient_bell")
def test_a_new_study_can_be_looked_at_and_wakes_its_workers(
    api: TestClient, base: None, broker_url: str
) -> None:
    answer = api.post("/v1/studies", json=a_study_document())
    for place in (answer.headers["location"], "/v1/studies/small"):
        looked_at = api.get(place)
        assert looked_at.json() == answer.json()
        assert looked_at.headers["etag"] == answer.headers["etag"]
    known = {"If-None-Match": answer.headers["etag"]}
    assert api.get("/v1/studies/small", headers=known).status_code == 304
    with redis.Redis.from_url(broker_url) as client:
        assert client.brpop(["doorbell.cpu"], timeout=60)  # it is rung from a thread
        assert client.llen("doorbell.cpu") == 0


def test_a_job_leads_to_its_studies_and_a_study_to_its_jobs(api: TestClient, base: None) -> None:
    study = api.post("/v1/studies", json=a_study_document(methods=["lora"])).json()
    api.post("/v1/jobs", json=an_adapt_document())
    listed = api.get(study["links"]["jobs"]).json()["data"]
    assert sorted(job["method"] or "base" for job in listed) == ["base", "lora", "lora"]
    brief = api.get(study["links"]["jobs"], params={"view": "basic"}).json()["data"]
    assert [(job["id"], "spec" in job) for job in brief] == [(job["id"], False) for job in listed]
    job = next(job for job in listed if job["method"] == "lora")
    (found,) = api.get(job["links"]["studies"]).json()["data"]
    assert (found["id"], found["jobs"]) == (study["id"], {"queued": 2, "succeeded": 1})
    assert "cells" not in found
    filtered = api.get("/v1/jobs", params={"filter": "study = small AND state = queued"}).json()
    assert len(filtered["data"]) == 2
    # A filter cannot get out of the study.
    outside = {"filter": "state = queued) OR (state = queued"}
    assert api.get(study["links"]["jobs"], params=outside).status_code == 422
    either = {"filter": "state = queued OR method = prefix_tuning"}
    assert len(api.get(study["links"]["jobs"], params=either).json()["data"]) == 2


def test_a_preview_stores_nothing(api: TestClient, sessions: Sessions) -> None:
    spec = a_study_document(base_models=[a_pretrain_document()], budgets=[16, 64])
    answer = api.post("/v1/studies?validate_only=true", json=spec)
    assert answer.status_code == 200, answer.text
    preview = answer.json()
    assert preview["object"] == "study.preview"
    assert preview["passes"] == 1 + preview["new_jobs"] == 6
    assert [(s["method"], s["budget"], s["nearest"]) for s in preview["skipped"]] == [
        ("lora", 16, [32])
    ]
    assert preview["skipped"][0]["problems"][0]["pointer"] == "/budgets/0"
    assert preview["jobs"][0]["resolved_spec"]["seeds"] == [0, 1]
    assert preview["seconds"] > 0
    assert any("No live worker" in warning for warning in preview["warnings"])
    assert stored(sessions) == (0, 0)


def test_the_same_key_and_body_is_the_same_study(
    api: TestClient, base: None, sessions: Sessions
) -> None:
    key = {"Idempotency-Key": "slurm-4711"}
    first = api.post("/v1/studies", json=a_study_document(), headers=key)
    again = api.post("/v1/studies", json=a_study_document(), headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == first.json()
    assert stored(sessions) == (1, 7)
    other = api.post("/v1/studies", json=a_study_document(seeds=3), headers=key)
    assert other.json()["type"].endswith("idempotency-key-reused")
    job = api.post("/v1/jobs", json=an_adapt_document(), headers=key)
    assert job.json()["type"].endswith("idempotency-key-reused")


def test_a_study_is_extended_cloned_and_cancelled(api: TestClient, base: None) -> None:
    study = api.post("/v1/studies", json=a_study_document(methods=["lora"])).json()
    planned = api.post(f"{study['links']['extend']}?validate_only=true", json={"seeds": 3})
    assert planned.json()["new_jobs"] == 2
    for _ in range(2):  # the same once more changes nothing
        longer = api.post(study["links"]["extend"], json={"seeds": 3})
        assert longer.status_code == 200, longer.text
        assert longer.json()["jobs"] == {"queued": 4, "succeeded": 1}
    cloned = api.post(study["links"]["clone"], json={"name": "again", "budgets": [64, 96]})
    assert cloned.status_code == 201, cloned.text
    assert cloned.headers["location"] == cloned.json()["links"]["self"]
    # Three seeds in one job are not the two and the one that there are.
    assert cloned.json()["jobs"] == {"queued": 2, "succeeded": 1}
    cancelled = api.post("/v1/studies/again/cancel")
    assert cancelled.json()["jobs"] == {"cancelled": 2, "succeeded": 1}
    refused = api.post("/v1/studies/again/extend", json={})
    assert (refused.status_code, refused.json()["state"]) == (409, "cancelled")
    assert [s["name"] for s in api.get("/v1/studies").json()["data"]] == ["again", "small"]


SENSELESS: list[Any] = [
    ({"methods": []}, "/methods", "too_short"),
    (
        {"methods": [{"name": "lora", "training": {"steps": 0}}]},
        "/methods/0/training/steps",
        "greater_than_equal",
    ),
    (
        {"methods": [{"name": "lora", "base_models": ["tiny-srot"]}]},
        "/methods/0/base_models/0",
        "not_a_base_of_the_study",
    ),
    ({"checks": ["theorms"]}, "/checks/0/name", "unknown_check"),
    (
        {"checks": [{"name": "span", "of": "lorra"}]},
        "/checks/0/of",
        "not_a_method_of_the_study",
    ),
    ({"methods": ["lora", "lorra"]}, "/methods/1/name", "unknown_method"),
    ({"methods": ["lora", {"name": "lora", "rnk": 3}]}, "/methods/1/rnk", "extra_forbidden"),
    (
        {"methods": ["lora", {"name": "lora", "sites": ["q", "v"]}]},
        "/methods/1",
        "method_twice",
    ),
    (
        {"methods": [{"name": "lora", "label": "a"}, {"name": "ia3", "label": "a"}]},
        "/methods/1/label",
        "label_twice",
    ),
    ({"methods": [{"name": "lora", "sites": ["x"]}]}, "/methods/0/sites/0", "unknown_site"),
    ({"methods": ["lora"], "budgets": [64, 31]}, "/budgets/1", "infeasible_budget"),
    ({"methods": ["frozen", "lora"], "budgets": [31]}, "/budgets/0", "infeasible_budget"),
    ({"budgets": [64, 64]}, "/budgets/1", "budget_twice"),
    ({"budgets": [64, {}]}, "/budgets/1", "budget_missing"),
    (
        {"budgets": [{"trainable_parameters": 64, "fraction_of_base": 0.1}]},
        "/budgets/0",
        "ambiguous_budget",
    ),
    ({"base_models": ["tiny-srot"]}, "/base_models/0", "unknown_base_model"),
    ({"base_models": ["tiny-sort", "tiny-sort"]}, "/base_models/1", "base_model_twice"),
    (
        {"base_models": [a_pretrain_document(name="b", family={"name": "minigpt", "heads": 5})]},
        "/base_models/0/family/heads",
        "not_a_divisor",
    ),
    ({"tasks": ["sort_descnding"]}, "/tasks/0/name", "unknown_task"),
    ({"tasks": [a_study_document()["tasks"][0]] * 2}, "/tasks/1", "task_twice"),
    ({"seeds": [3, 4, 3]}, "/seeds/2", "seed_twice"),
    ({"name": "Not a name"}, "/name", "string_pattern_mismatch"),
    ({"trials": 3}, "/trials", "extra_forbidden"),
]


def test_a_study_that_makes_no_sense_is_refused_at_the_place(
    api: TestClient, base: None, sessions: Sessions
) -> None:
    for changes, pointer, code in SENSELESS:
        found = fault(api.post("/v1/studies", json=a_study_document(**changes)))
        assert (found["pointer"], found["code"]) == (pointer, code)
        assert stored(sessions) == (0, 1)


def test_a_study_may_have_checks_and_methods_that_are_trained_otherwise(
    api: TestClient, base: None
) -> None:
    task = a_study_document()["tasks"][0]
    methods = [
        {"name": "lora", "training": {"steps": 9}, "tuning": {"learning_rates": [0.1, 0.2]}},
        {"name": "prefix_tuning", "tasks": [task], "base_models": ["tiny-sort"]},
    ]
    checks = [{"name": "relative_attention", "of": "lora", "task": task}, "theorems"]
    document = a_study_document(methods=methods, budgets=[64], checks=checks)
    planned = api.post("/v1/studies?validate_only=true", json=document)
    assert planned.status_code == 200, planned.text
    assert [check["label"] for check in planned.json()["checks"]] == [
        "relative_attention", "theorems",
    ]  # fmt: skip
    made = api.post("/v1/studies", json=document)
    assert made.status_code == 201, made.text
    study = made.json()
    assert study["spec"]["methods"] == methods
    assert study["spec"]["checks"] == [checks[0], {"name": "theorems"}]
    assert [check["job"]["state"] for check in study["checks"]] == ["waiting", "queued"]
    assert study["recipe"] is None
    alone = api.post("/v1/studies", json={"name": "theory", "checks": ["theorems"]})
    assert (alone.status_code, alone.json()["checks"][0]["job"]["reused"]) == (201, True)


def test_a_task_that_the_base_model_cannot_have_is_pointed_to(api: TestClient, base: None) -> None:
    tasks = [*a_study_document()["tasks"], {"name": "sort_descending", "length": 9, "alphabet": 4}]
    found = fault(api.post("/v1/studies", json=a_study_document(tasks=tasks)))
    assert (found["pointer"], found["code"]) == ("/tasks/1", "context_too_small")


def test_too_many_jobs_are_refused_with_the_sum(api: TestClient, base: None) -> None:
    names = ("sort_descending", "sort_ascending")
    tasks = [{"name": n, "length": 3, "alphabet": a} for n in names for a in range(2, 8)]
    methods = ["lora", "prefix_tuning", "soft_prompt", "frozen"]
    spec = a_study_document(tasks=tasks, methods=methods, budgets=[*range(32, 64)])
    found = fault(api.post("/v1/studies", json=spec))
    assert (found["code"], found["nearest"]) == ("too_many_jobs", [1000])
    assert "1,164 jobs" in found["detail"]  # 12 tasks, 32 budgets for each of three, one for frozen


def test_an_extension_that_makes_no_sense_is_refused(api: TestClient, base: None) -> None:
    api.post("/v1/studies", json=a_study_document())
    fewer = fault(api.post("/v1/studies/small/extend", json={"seeds": 1}))
    assert (fewer["pointer"], fewer["nearest"]) == ("/seeds", [2])
    unknown = fault(api.post("/v1/studies/small/extend", json={"methods": ["lora", "lorra"]}))
    assert (unknown["pointer"], unknown["nearest"][0]) == ("/methods/1/name", "lora")
    assert api.get("/v1/studies/small").json()["spec"]["seeds"] == 2
    nowhere = api.post("/v1/studies/nobody/extend", json={})
    assert (nowhere.status_code, "List the studies" in nowhere.text) == (404, True)
    assert fault(api.post("/v1/studies/small/clone", json={}))["pointer"] == "/name"
    taken = api.post("/v1/studies/small/clone", json={"name": "small"})
    assert taken.status_code == 409


def test_reading_is_for_readers_and_changing_for_submitters(
    anonymous: TestClient, base: None, sessions: Sessions
) -> None:
    assert anonymous.get("/v1/studies").status_code == 401
    with sessions.begin() as session:
        reader = {"Authorization": f"Bearer {a_token(session, 'eve', ['read'])}"}
    assert anonymous.get("/v1/studies", headers=reader).status_code == 200
    refused = anonymous.post("/v1/studies", json=a_study_document(), headers=reader)
    assert refused.status_code == 403
    for verb in ("cancel", "extend", "clone"):
        answer = anonymous.post(f"/v1/studies/small/{verb}", json={}, headers=reader)
        assert answer.status_code == 403
