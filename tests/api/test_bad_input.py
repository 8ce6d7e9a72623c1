"""Any input gets a problem document below 500, and stores nothing."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_pretrain_document, an_adapt_document

from adaptlab_api.requests.strict_json import DEEPEST
from adaptlab_db.tables import Job

Sessions = sessionmaker[Session]
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def one_job(shared_sessions: Sessions) -> None:
    with shared_sessions.begin() as session:
        a_base_model(session)


@pytest.fixture(autouse=True)
def stores_nothing(one_job: None, shared_sessions: Sessions) -> Iterator[None]:
    """Every test here ends with the one job that it began with."""
    yield
    with shared_sessions.begin() as session:
        assert session.scalars(select(func.count()).select_from(Job)).one() == 1


def post(api: TestClient, body: bytes, path: str = "/v1/jobs") -> dict[str, Any]:
    """The problem that a body is answered with."""
    answer = api.post(path, content=body, headers=JSON)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert {"type", "title", "detail", "instance"} <= set(problem)
    return problem


def document(**changes: Any) -> bytes:
    return json.dumps(an_adapt_document(**changes)).encode()


BROKEN = {
    "nothing": (b"", "invalid_json"),
    "cut short": (b'{"kind": "adapt"', "invalid_json"),
    "no json": (b"kind: adapt", "invalid_json"),
    "two documents": (b"{} {}", "invalid_json"),
    "a trailing comma": (b'{"kind": "adapt",}', "invalid_json"),
    "a raw newline in a text": (b'{"kind": "ad\napt"}', "invalid_json"),
    "latin-1": ('{"kind": "\xe4dapt"}'.encode("latin-1"), "invalid_encoding"),
    "utf-16": ('{"kind": "adapt"}'.encode("utf-16"), "invalid_encoding"),
    "overlong utf-8": (b'{"kind": "\xc0\xaf"}', "invalid_encoding"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "byte_order_mark"),
    "a hundred thousand levels": (b"[" * 100_000 + b"]" * 100_000, "too_deep"),
    "a hundred thousand open levels": (b'{"a":' * 100_000, "too_deep"),
}


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/budgets/solve"])
def test_a_body_that_is_no_json(shared_api: TestClient, path: str) -> None:
    for what, (body, code) in BROKEN.items():
        problem = post(shared_api, body, path)
        assert problem["status"] == 400, what
        assert [fault["code"] for fault in problem["errors"]] == [code], what


VALUES = {
    "NaN": ("NaN", "not_finite"),
    "Infinity": ("Infinity", "not_finite"),
    "-Infinity": ("-Infinity", "not_finite"),
    "1e999": ("1e999", "not_finite"),
    "-1e999": ("-1e999", "not_finite"),
    "an integer of 5,000 digits": ("9" * 5000, "integer_too_large"),
    "an integer beyond 64 bits": (str(2**63), "integer_too_large"),
    "a lone high surrogate": (r'"\ud800"', "lone_surrogate"),
    "a lone low surrogate": (r'"\udfff"', "lone_surrogate"),
    "NUL": (r'"a\u0000b"', "nul_character"),
}
PLACES = {
    "a number": "/training/learning_rate",
    "an integer": "/training/steps",
    "a knob of a method": "/method/alpha",
    "a knob that there is not": "/method/none",
    "a member that there is not": "/none",
    "a label": "/labels/x",
    "a name": "/base_model",
    "a list": "/evaluation/tasks",
}


@pytest.mark.parametrize(("text", "code"), VALUES.values(), ids=VALUES)
def test_a_value_that_json_or_postgres_does_not_know(
    shared_api: TestClient, text: str, code: str
) -> None:
    for path in ("/v1/jobs", "/v1/jobs?validate_only=true"):
        for where, pointer in PLACES.items():
            problem = post(shared_api, with_value(pointer, text), path)
            assert problem["status"] == 422, where
            assert [(f["pointer"], f["code"]) for f in problem["errors"]] == [(pointer, code)]


def with_value(pointer: str, text: str) -> bytes:
    """A good document but for the JSON `text` at `pointer`."""
    marked = an_adapt_document(method={"name": "lora"}, labels={})
    here = marked
    *parents, last = pointer[1:].split("/")
    for part in parents:
        here = here.setdefault(part, {})
    here[last] = "@@"
    return json.dumps(marked).replace('"@@"', text).encode()


def test_a_key_that_json_or_postgres_does_not_know(shared_api: TestClient) -> None:
    for key, code in {r"\u0000": "nul_character", r"\ud800": "lone_surrogate"}.items():
        body = b'{"labels": {"%s": "x"}}' % key.encode()
        assert [f["code"] for f in post(shared_api, body)["errors"]] == [code]


def test_a_key_that_is_repeated(shared_api: TestClient) -> None:
    body = b'{"kind": "adapt", "training": {"steps": 1, "steps": 2}, "kind": "pretrain"}'
    problem = post(shared_api, body)
    assert [(f["pointer"], f["code"]) for f in problem["errors"]] == [
        ("/kind", "duplicate_key"),
        ("/training/steps", "duplicate_key"),
    ]


def test_nesting_up_to_the_limit_is_only_judged_by_the_schema(shared_api: TestClient) -> None:
    deep = b"[" * DEEPEST + b"]" * DEEPEST
    assert post(shared_api, deep)["errors"][0]["code"] != "too_deep"
    assert post(shared_api, b"[" + deep + b"]")["errors"][0]["code"] == "too_deep"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a text for a number": ({"training": {"steps": "10"}}, "/training/steps"),
    "a boolean for a number": ({"training": {"steps": True}}, "/training/steps"),
    "a boolean for a budget": ({"budget": True}, "/budget"),
    "a fraction for a count": ({"training": {"steps": 10.5}}, "/training/steps"),
    "a negative count": ({"training": {"steps": -1}}, "/training/steps"),
    "a number for a text": ({"labels": {"x": 1}}, "/labels/x"),
    "a list for an object": ({"training": []}, "/training"),
    "null for an object": ({"training": None}, "/training"),
    "an unknown member": ({"trainning": {}}, "/trainning"),
    "an unknown kind": ({"kind": "adopt"}, "/kind"),
    "an unknown method": ({"method": "lorra"}, "/method/name"),
    "an unknown task": ({"task": {"name": "sort"}}, "/task/name"),
    "a task too small to have a test": (
        {"task": {"name": "copy", "length": 1, "alphabet": 2}},
        "/task/length",
    ),
    "an unknown knob": ({"method": {"name": "lora", "rnak": 1}}, "/method/rnak"),
    "a wrong knob": ({"method": {"name": "lora", "rank": "7"}}, "/method/rank"),
    "two budgets": ({"budget": {"trainable_parameters": 9, "fraction_of_base": 0.1}}, "/budget"),
    "a base model's name that is no name": ({"base_model": "../../etc"}, "/base_model"),
    "an unknown queue": ({"resources": {"queue": "a b"}}, "/resources/queue"),
}


def test_a_spec_that_is_wrong(shared_api: TestClient) -> None:
    for what, (changes, pointer) in WRONG.items():
        problem = post(shared_api, document(**changes))
        assert problem["status"] == 422, what
        assert pointer in [fault["pointer"] for fault in problem["errors"]], what


def test_an_unknown_method_lists_those_there_are(shared_api: TestClient) -> None:
    (fault,) = post(shared_api, document(method="lorra"))["errors"]
    assert fault["code"] == "unknown_method"
    assert {"lora", "prefix_tuning", "soft_prompt", "full_finetuning"} <= set(fault["allowed"])
    assert fault["nearest"][0] == "lora"


NAMELESS: dict[str, tuple[bytes, str, str]] = {
    "a task": (document(task={"length": 5}), "/v1/jobs", "/task"),
    "a method": (document(method={"rank": 1}), "/v1/jobs", "/method"),
    "a task to score": (document(evaluation={"tasks": [{}]}), "/v1/jobs", "/evaluation/tasks/0"),
    "a task of a mixture": (
        document(task={"name": "mixture", "tasks": ["add", {"k": 1}]}), "/v1/jobs", "/task/tasks/1",
    ),
    "a task of a composition": (
        document(task={"name": "composition", "first": {}, "then": "add"}), "/v1/jobs",
        "/task/first",
    ),
    "a part of a combination": (
        document(method={"name": "combine", "parts": ["lora", {"rank": 1}]}), "/v1/jobs",
        "/method/parts/1",
    ),
    "a family": (
        json.dumps({**a_pretrain_document(), "family": {"layers": 1}}).encode(), "/v1/jobs",
        "/family",
    ),
    "a check": (
        json.dumps({"kind": "theory", "checks": [{"steps": 1}]}).encode(), "/v1/jobs", "/checks/0",
    ),
    "a method of a study": (
        json.dumps({"name": "s", "base_model": "sort", "tasks": ["add"], "methods": [{}]}).encode(),
        "/v1/studies", "/methods/0",
    ),
}  # fmt: skip


def test_what_has_no_name_is_told_so_where_it_is_missing(shared_api: TestClient) -> None:
    for what, (body, path, pointer) in NAMELESS.items():
        faults = {fault["pointer"]: fault for fault in post(shared_api, body, path)["errors"]}
        fault = faults[f"{pointer}/name"]
        assert (fault["code"], fault["detail"]) == ("missing", "name is missing."), what
        assert "'None'" not in str(faults), what


@pytest.mark.long("many bad inputs")
def test_very_many_faults_are_answered_with_few(shared_api: TestClient) -> None:
    body = document(capture={"attention": {"inputs": [["x"] * 100_000]}})
    assert len(post(shared_api, body)["errors"]) <= 100
    body = document(labels={f"no label {i}": i for i in range(20_000)})
    assert len(post(shared_api, body)["errors"]) <= 100


def test_a_body_that_does_not_say_that_it_is_json(shared_api: TestClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        answer = shared_api.post("/v1/jobs", content=document(), headers={"Content-Type": kind})
        assert answer.status_code == 415
        assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_over_the_limit(shared_api: TestClient) -> None:
    too_large = document(labels={"x": "y" * 2**20})
    announced = shared_api.post("/v1/jobs", content=too_large, headers=JSON)

    def pieces() -> Iterator[bytes]:
        yield from (too_large[at : at + 65536] for at in range(0, len(too_large), 65536))

    counted = shared_api.post("/v1/jobs", content=pieces(), headers=JSON)
    for answer in (announced, counted):
        assert answer.status_code == 413
        assert answer.headers["content-type"] == "application/problem+json"
        assert str(2**20) in answer.json()["detail"]


def test_a_body_that_announces_too_much_is_not_waited_for(shared_api: TestClient) -> None:
    announced = {**JSON, "Content-Length": str(2**21)}
    answer = shared_api.post("/v1/jobs", content=document(), headers=announced)
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"


ADDRESSES = {
    "/nowhere": 404,
    "/v1": 404,
    "/v1/jobs/": 404,
    "/v1/jobs/1": 404,
    "/v1/jobs/00000000-0000-0000-0000-000000000000": 404,
    "/v1/jobs/00000000-0000-0000-0000-000000000000/events": 404,
    "/v1/jobs/00000000-0000-0000-0000-000000000000/metrics": 404,
    "/v1/jobs/00000000-0000-0000-0000-000000000000/checkpoints": 404,
    "/v1/jobs/00000000-0000-0000-0000-000000000000/attention/1/content": 404,
    "/v1/jobs/%00": 400,
    "/v1/jobs?filter=%00": 400,
    "/v1/jobs?page_size=0": 422,
    "/v1/jobs?page_size=x": 422,
    "/v1/jobs?page_size=1e400": 422,
    "/v1/jobs?page_token=x": 422,
    "/v1/jobs?page_token=%ff": 422,
    "/v1/jobs?order_by=state": 422,
    "/v1/jobs?page_size=1&page_size=2": 422,
    "/v1/jobs?project=default&project=default": 422,
    "/v1/checkpoints/0/content": 422,
    "/v1/checkpoints/99999999999999999999/content": 422,
    "/v1/checkpoints/999/content": 404,
    "/v1/methods/lorra": 404,
    "/v1/base-models/none": 404,
    "/v1/base-models/..%2F..%2Fetc": 404,
}


def test_an_address_that_leads_nowhere(shared_api: TestClient) -> None:
    for address, status in ADDRESSES.items():
        answer = shared_api.get(address)
        assert answer.status_code == status, (address, answer.text)
        assert answer.headers["content-type"] == "application/problem+json", address


def test_a_method_that_the_address_does_not_know(shared_api: TestClient) -> None:
    answer = shared_api.delete("/v1/jobs")
    assert answer.status_code == 405
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"GET", "POST"} & {word.strip() for word in answer.headers["allow"].split(",")}


def test_an_idempotency_key_that_is_none(shared_api: TestClient) -> None:
    for key in (b"", b"with space", b"x" * 256, "\u00fcmlaut".encode()):
        headers = [(b"Idempotency-Key", key), (b"Content-Type", b"application/json")]
        answer = shared_api.post("/v1/jobs", content=document(), headers=headers)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/header/idempotency-key"


def test_a_pretraining_that_nobody_could_train(shared_api: TestClient) -> None:
    family = {"name": "minigpt", "width": 10**9}
    problem = post(shared_api, json.dumps(a_pretrain_document(family=family)).encode())
    assert problem["errors"][0]["pointer"] == "/family/width"
