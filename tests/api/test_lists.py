"""Lists: pages, filters, order, and errors in questions."""

from typing import Any, cast

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import event, func
from sqlalchemy.orm import Session, sessionmaker
from tests.making import BASE, a_base_model, a_job, an_adapt_spec

from adaptlab_api.answers.state import resources_of
from adaptlab_db.visibility import VISIBLE, guarded
from adaptlab_services.jobs import lists
from adaptlab_services.jobs.lists import JobQuery

Sessions = sessionmaker[Session]


@pytest.fixture
def seven(sessions: Sessions) -> list[str]:
    """Seven jobs, oldest first: a base model, then adaptations of all sorts."""
    with sessions.begin() as session:
        made = [
            a_base_model(session),
            a_job(session, an_adapt_spec(labels={"paper": "table-1", "run": "a b"})),
            a_job(session, an_adapt_spec(method="lora", budget=64), state="running"),
            a_job(session, an_adapt_spec(method="soft_prompt"), state="failed", reason="diverged"),
            a_job(session, an_adapt_spec(), owner="bob", queue="gpu", priority=9),
            a_job(session, an_adapt_spec(labels={"paper": "table-2"}), state="cancelled"),
            a_job(session, an_adapt_spec(), state="waiting"),
        ]
    return [str(job) for job in made]


def listed(api: TestClient, **parameters: str | int) -> list[str]:
    answer = api.get("/v1/jobs", params=parameters)
    assert answer.status_code == 200, answer.text
    return [job["id"] for job in answer.json()["data"]]


def fault(api: TestClient, **parameters: str | int) -> dict[str, Any]:
    answer = api.get("/v1/jobs", params=parameters)
    assert answer.status_code == 422, answer.text
    (found,) = answer.json()["errors"]
    return found


def test_the_newest_job_is_first(api: TestClient, seven: list[str]) -> None:
    assert listed(api) == seven[::-1]
    assert listed(api, order_by="created_at") == seven


@pytest.mark.parametrize("order", ["created_at", "-created_at"])
def test_pages_follow_each_other_without_gap_or_repetition(
    api: TestClient, seven: list[str], sessions: Sessions, order: str
) -> None:
    seen: list[str] = []
    token: str | None = None
    while True:
        parameters = {"page_size": 3, "order_by": order} | ({"page_token": token} if token else {})
        page = api.get("/v1/jobs", params=parameters).json()
        assert len(page["data"]) <= 3
        seen += [job["id"] for job in page["data"]]
        token = page["next_page_token"]
        if token is None:
            break
        with sessions.begin() as session:  # a job that comes in between moves nothing
            early = func.clock_timestamp() + func.make_interval(1 if order[0] == "-" else -1)
            a_job(session, created_at=early)
    assert seen == (seven if order == "created_at" else seven[::-1])


def test_a_summary_says_of_a_job_what_the_job_says(api: TestClient, seven: list[str]) -> None:
    left_out = {"spec", "resolved_spec", "budget", "links", "fetch"}
    for question in ({}, {"filter": "method = lora OR state = running"}, {"page_size": 3}):
        whole = api.get("/v1/jobs", params=question).json()
        brief = api.get("/v1/jobs", params=question | {"view": "basic"}).json()
        assert whole["data"]
        assert brief["data"] == [
            {name: value for name, value in job.items() if name not in left_out}
            for job in whole["data"]
        ]
        if whole["next_page_token"]:  # a token is of the question, not of how much is told
            question = {"page_size": 3, "view": "basic", "page_token": whole["next_page_token"]}
            assert listed(api, **question) == seven[-4:-7:-1]


def test_a_summary_names_and_counts_what_a_spec_says(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        a_job(session, an_adapt_spec(budget=41))
    asked = {"kind": "theory", "checks": [{"name": "theorems", "effort": "small"}]}
    assert api.post("/v1/jobs", json=asked).json()["checks"] == ["theorems"]
    theory, adapted, base = api.get("/v1/jobs", params={"view": "basic"}).json()["data"]
    assert theory["checks"] == ["theorems"]
    assert (adapted["budget_requested"], adapted["trainable_parameters"]) == (41, 40)
    assert (adapted["name"], adapted["checks"]) == (None, [])
    assert base["name"] == BASE


def test_a_list_is_of_jobs_or_summaries_and_nothing_else(api: TestClient) -> None:
    assert fault(api, view="BASIC")["pointer"] == "/query/view"


def test_who_only_reads_begins_no_unit_of_work(api: TestClient, seven: list[str]) -> None:
    alone: dict[str, bool] = {}

    def note(_connection: object, cursor: Any, statement: str, *_: object) -> None:
        if "jobs.id" in statement and "tokens" not in statement:
            alone[statement] = cursor.connection.autocommit

    engine = resources_of(cast(FastAPI, api.app)).sessions.kw["bind"]
    event.listen(engine, "before_cursor_execute", note)
    assert listed(api) == seven[::-1]
    assert api.get(f"/v1/jobs/{seven[-1]}").status_code == 200
    assert len(alone) >= 2
    assert all(alone.values())
    alone.clear()
    assert api.post(f"/v1/jobs/{seven[-1]}/cancel").json()["state"] == "cancelled"
    assert alone
    assert not any(alone.values()), "by a connection that was read by before"


@pytest.mark.parametrize(
    ("visible", "is_planned_once"), [(None, True), ((1,), True), ((1, 2), False)]
)
def test_a_list_of_several_projects_is_planned_for_who_asks(
    sessions: Sessions, visible: tuple[int, ...] | None, is_planned_once: bool
) -> None:
    """One of them may have few jobs among the very many of others."""
    asked: list[str] = []
    event.listen(
        sessions.kw["bind"], "before_cursor_execute", lambda *told: asked.append(str(told[2]))
    )
    with guarded(sessions)(info={VISIBLE: visible}) as session:
        lists.summaries(session, JobQuery())
    (statement,) = asked
    assert ("LIMIT 51" in statement) is is_planned_once


def test_jobs_of_one_moment_are_all_listed(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        moment = session.scalars(func.clock_timestamp().select()).one()
        made = {str(a_job(session, created_at=moment)) for _ in range(5)}
    seen: list[str] = []
    token = None
    for _ in range(6):
        parameters = {"page_size": 1} | ({"page_token": token} if token else {})
        page = api.get("/v1/jobs", params=parameters).json()
        seen += [job["id"] for job in page["data"]]
        token = page["next_page_token"]
    assert len(seen) == len(set(seen)) == 6
    assert made < set(seen)


def test_a_page_is_never_larger_than_the_limit(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        for _ in range(205):
            a_job(session)
    assert len(listed(api, page_size=100_000)) == 200


def test_a_page_token_belongs_to_its_question(api: TestClient, seven: list[str]) -> None:
    token = api.get("/v1/jobs", params={"page_size": 1}).json()["next_page_token"]
    assert fault(api, page_token=token, filter="state = queued")["code"] == "invalid_page_token"
    assert fault(api, page_token=token, order_by="created_at")["code"] == "invalid_page_token"
    assert fault(api, page_token=token[:-2])["code"] == "invalid_page_token"


FILTERS = {
    "": [0, 1, 2, 3, 4, 5, 6],
    "   ": [0, 1, 2, 3, 4, 5, 6],
    "state = queued": [1, 4],
    "state != queued": [0, 2, 3, 5, 6],
    "state IN (failed, cancelled)": [3, 5],
    'state="queued"AND owner=bob': [4],
    "state = queued OR state = running AND method = lora": [1, 2, 4],
    "(state = queued OR state = running) AND method = lora": [2],
    "NOT (state = queued OR state = running)": [0, 3, 5, 6],
    "NOT state = queued AND NOT state = running": [0, 3, 5, 6],
    "kind = pretrain": [0],
    "method = null": [0],
    "method != lora": [0, 1, 3, 4, 5, 6],
    "method IN (lora, null)": [0, 2],
    "reason = diverged": [3],
    "reason = null AND kind = adapt": [1, 2, 4, 5, 6],
    "queue = gpu AND priority >= 9": [4],
    "trainable_parameters > 16 AND kind = adapt": [2],
    "trainable_parameters <= 16": [1, 3, 4, 5, 6],
    "budget_requested = 64": [2],
    "base_model = tiny-sort AND task = sort_descending": [1, 2, 3, 4, 5, 6],
    "family = minigpt": [0, 1, 2, 3, 4, 5, 6],
    "labels.paper = table-1": [1],
    'labels.paper = "table-1" OR labels.paper = "table-2"': [1, 5],
    "labels.paper IN (table-1, table-2)": [1, 5],
    "labels.paper != table-1": [0, 2, 3, 4, 5, 6],
    "labels.paper = null": [0, 2, 3, 4, 6],
    'labels.run = "a b"': [1],
    "created_at > 2020-01-01": [0, 1, 2, 3, 4, 5, 6],
    "created_at < 2020-01-01T00:00:00Z": [],
    "finished_at = null": [1, 2, 4, 6],
    'state = queued AND labels.paper != "x\'; DROP TABLE jobs; --"': [1, 4],
    'owner = "\\"quoted\\\\"': [],
}


def test_filters_choose_what_they_say(api: TestClient, seven: list[str]) -> None:
    for text, expected in FILTERS.items():
        found = listed(api, filter=text, order_by="created_at")
        assert found == [seven[index] for index in expected], text


WRONG = {
    "state": "At character 6, one of",
    "state = ": "At character 8, a value is expected, not the end",
    "state = queued AND": "At character 19, a field is expected",
    "state = queued and owner = bob": "in capitals",
    "(state = queued": "')' is expected",
    "state = queued)": "AND, OR or the end is expected",
    "state # queued": "one of =",
    "state IN queued": "'(' is expected",
    "= queued": "a field is expected",
    'state = "queued': "begins nothing known",
    "state = asleep": "is not a valid state",
    "colour = red": "no field 'colour'",
    "priority = high": "whole number",
    "trainable_parameters > 1e3": "whole number",
    "priority = 99999999999999999999999": "whole number",
    "created_at > yesterday": "a time such as",
    "created_at > 0001-01-01T00:00:00+14:00": "a time such as",
    "state < null": "compared with =, !=, IN, NOT IN, ~, !~, not <",
    "priority < null": "can be = or != null",
    "priority ~ 5": "compared with =",
    "id = 5": "an id such as",
    "metrics.accuracy.mean > high": "a number such as",
    "metrics.accuracy.mean > nan": "a number such as",
    "metrics.acuracy.mean > 1": "no field 'metrics.acuracy.mean'",
    "study ~ x": "study is compared with =",
    "state = queued OR": "a field is expected",
    " AND ".join(["priority = 1"] * 101): "at most 100 comparisons",
    f"priority IN ({', '.join(['1'] * 1001)})": "at most 1000 values",
    " AND ".join(
        f"metrics.{m}.mean > 0"
        for m in ("accuracy", "base_accuracy", "accuracy_change", "final_loss", "train_loss")
    )
    + ' AND name = "': "second quote",
    "labels.paper < x": "compared with =",
    "NOT " * 100 + "state = queued": "levels deep",
    "(" * 100 + "state = queued" + ")" * 100: "levels deep",
}


def test_a_filter_that_makes_no_sense_is_told_where(api: TestClient, seven: list[str]) -> None:
    for text, words in WRONG.items():
        found = fault(api, filter=text)
        assert found["pointer"] == "/query/filter", text
        assert words in found["detail"], text


def test_a_mistyped_field_or_value_is_told_what_is_near(api: TestClient, seven: list[str]) -> None:
    assert fault(api, filter="sate = queued")["nearest"][0] == "state"
    assert fault(api, filter="state = succeded")["nearest"][0] == "succeeded"


def test_base_models_come_in_pages(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        for name in ("c", "a", "b"):
            a_base_model(session, name)
    first = api.get("/v1/base-models?page_size=2").json()
    second = api.get(
        "/v1/base-models", params={"page_size": 2, "page_token": first["next_page_token"]}
    ).json()
    names = [model["name"] for page in (first, second) for model in page["data"]]
    assert names == ["a", "b", "c"]
    assert second["next_page_token"] is None
