"""Hostile requests to every route are refused, and never a 500.

The routes come from the description of the API, so that a new one is walked without being named.
"""

import io
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_job
from tests.security.hostile import INJECTIONS, NOT_JSON, VALUES

from adaptlab_api.openapi import undeployed
from adaptlab_db.tables import BaseModel, Job, Study
from adaptlab_services import paging

Answer = Any  # the test client's own, whose type depends on which httpx is installed
JSON = "application/json"
SOMEWHERE = "00000000-0000-0000-0000-000000000000"
SQL = re.compile(r"psycopg|sqlalchemy|syntax error at|SELECT .* FROM|UPDATE .* SET", re.IGNORECASE)


@dataclass(frozen=True)
class Operation:
    """One route with one method, as the description has it."""

    method: str
    path: str
    described: dict[str, Any]

    @property
    def takes_json(self) -> bool:
        return JSON in self.described.get("requestBody", {}).get("content", {})

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Where each parameter stands, and its name."""
        return [(one["in"], one["name"]) for one in self.described.get("parameters", ())]

    def address(self, values: dict[str, str]) -> str:
        """The path, with what is known for the parameters in it."""
        return re.sub(r"{([^}]+)}", lambda m: values.get(m[1], "1"), self.path)


@pytest.fixture(scope="module")
def operations() -> list[Operation]:
    """All operations; describing them takes a second, without settings."""
    document = undeployed().openapi()
    shared = document["components"]["parameters"]

    def written_out(described: dict[str, Any]) -> dict[str, Any]:
        parameters = [
            shared[one["$ref"].rsplit("/", 1)[1]] if "$ref" in one else one
            for one in described.get("parameters", ())
        ]
        return described | {"parameters": parameters}

    return [
        Operation(method.upper(), path, written_out(described))
        for path, methods in document["paths"].items()
        for method, described in methods.items()
        if method in ("get", "head", "post", "put", "patch", "delete")
    ]


@pytest.fixture
def known(sessions: sessionmaker[Session]) -> dict[str, str]:
    """Values with which the paths lead somewhere."""
    with sessions.begin() as session:
        a_base_model(session)
        return {"job_id": str(a_job(session)), "base_model": "tiny-sort", "name": "tiny-sort"}


@pytest.fixture(autouse=True)
def stores_nothing(known: dict[str, str], sessions: sessionmaker[Session]) -> Iterator[None]:
    """Nothing is there afterwards that was not before."""
    before = _stored(sessions)
    yield
    assert _stored(sessions) == before


def _stored(sessions: sessionmaker[Session]) -> list[int]:
    with sessions.begin() as session:
        return [
            session.scalars(select(func.count()).select_from(table)).one()
            for table in (Job, BaseModel, Study)
        ]


def refused(answer: Answer, what: object) -> None:
    """Check that an answer is a problem document of somebody else's fault."""
    assert 400 <= answer.status_code < 500, (what, answer.status_code, answer.text[:300])
    assert answer.headers["content-type"] == "application/problem+json", what
    problem = answer.json()
    assert problem["status"] == answer.status_code, what
    assert {"type", "title", "detail", "instance"} <= set(problem), what
    assert problem["request_id"] == answer.headers["x-request-id"], what


@pytest.mark.long("many bad inputs")
def test_bodies_that_are_no_strict_json(
    api: TestClient, operations: list[Operation], known: dict[str, str]
) -> None:
    walked = [one for one in operations if one.takes_json]
    assert len(walked) >= 6
    deep = {
        f"{what} deep in an unknown member": b'{"x": {"y": [0, {"z": %s}]}}' % value
        for what, value in VALUES.items()
    }
    elsewhere = {
        f"{what} {where}": form % value
        for what, value in VALUES.items()
        for where, form in {
            "alone": b"%s",
            "in a member": b'{"name": %s}',
            "in a list": b'{"tasks": [%s]}',
        }.items()
    }
    # All routes read bodies by one reader: every place is tried on the first, and one on each.
    for number, one in enumerate(walked):
        for what, body in {**NOT_JSON, **deep, **({} if number else elsewhere)}.items():
            answer = api.request(
                one.method, one.address(known), content=body, headers={"Content-Type": JSON}
            )
            refused(answer, (one.method, one.path, what))
            assert answer.status_code in (400, 422), (one.path, what)


def test_bodies_of_another_kind(
    api: TestClient, operations: list[Operation], known: dict[str, str]
) -> None:
    for one in (one for one in operations if one.takes_json):
        for headers in (
            {"Content-Type": "text/plain"},
            {"Content-Type": "multipart/form-data; boundary=x"},
            {"Content-Type": "application/x-www-form-urlencoded"},
            {"Content-Type": ""},
            {"Content-Type": JSON, "Content-Encoding": "gzip"},
            {"Content-Type": JSON, "Content-Encoding": "br"},
        ):
            answer = api.request(one.method, one.address(known), content=b"{}", headers=headers)
            refused(answer, (one.path, headers))
            assert answer.status_code == 415, (one.path, headers)


@pytest.mark.long("many bad inputs")
def test_parameters(
    api: TestClient, operations: list[Operation], known: dict[str, str], log: io.StringIO
) -> None:
    asked, seen = 0, set[tuple[str, str]]()  # the first of a name gets all, others a twelfth
    for one in operations:
        for place, name in one.parameters:
            texts = INJECTIONS[asked % 12 :: 12] if (place, name) in seen else INJECTIONS
            for text in texts:
                answer = _with(api, one, known, place, name, text)
                _check_inert(answer, (one.method, one.path, place, name, text))
                asked += 1
            seen.add((place, name))
    assert asked > 1000
    lines_are_intact(log)


def _check_inert(answer: Answer, asked: tuple[str, str, str, str, str]) -> None:
    text = asked[-1]
    assert answer.status_code < 500, (*asked, answer.text[:300])
    if answer.status_code >= 400 and asked[0] != "HEAD":
        refused(answer, asked)
    if answer.headers.get("content-type", "").endswith("json"):
        # What is refused may be quoted, with its own words of SQL.
        assert not SQL.search(answer.text.replace(json.dumps(text)[1:-1], "")), asked
    assert "owned" not in answer.headers.get("set-cookie", ""), asked


def _with(
    api: TestClient, one: Operation, known: dict[str, str], place: str, name: str, text: str
) -> Answer:
    """The answer with `text` for one parameter, however it may get there."""
    values, query, headers = dict(known), b"", list[tuple[bytes, bytes]]()
    quoted = "".join(f"%{byte:02X}" for byte in text.encode())
    if place == "path":
        values[name] = quoted
    elif place == "query":
        query = f"?{name}={quoted}".encode()
    else:
        # A socket lets no line break through, so none comes from here either.
        cut = re.sub(r"[\r\n\x00]", " ", text)
        headers = [(name.encode(), cut.encode())]
    body = b"{}" if one.takes_json else None
    if one.takes_json:
        headers.append((b"Content-Type", JSON.encode()))
    address = one.address(values) + query.decode()
    return api.request(one.method, address, content=body, headers=headers)


LISTS = {
    "/v1/jobs": ("jobs", "", "-created_at"),
    "/v1/studies": ("studies", "None"),
    "/v1/datasets": ("datasets",),
    "/v1/base-models": ("base_models",),
}
CURSORS = (
    ("\x00", SOMEWHERE),
    ("a", "\x00"),
    ("9999-12-31T23:59:59-23:59", SOMEWHERE),
    ("0001-01-01T00:00:00+23:59", SOMEWHERE),
    ("2026-01-01", "x"),
    ("\u202e'; DROP TABLE jobs; --", "9" * 300),
    ("", ""),
)


def test_page_tokens_that_somebody_made(api: TestClient) -> None:
    for path, question in LISTS.items():
        for cursor in CURSORS:
            token = paging.written(paging.Cursor(*cursor), *question)
            answer = api.get(path, params={"page_token": token})
            assert answer.status_code in (200, 422), (path, cursor, answer.text[:300])


HEADERS = {
    "If-None-Match": ["x" * 4000, '"' * 1000, "W/" * 1000, "*", ",,,", "\u00e9"],
    "Range": ["bytes=" + "9" * 5000 + "-", "bytes=0-0," * 500, "bytes=--1", "x=0-1", "bytes=5-1"],
    "If-Range": ["x", '"'],
    "Last-Event-ID": ["-1", "9" * 5000, "x", "1e9", "\u0661"],
    "Idempotency-Key": ["a b", "x" * 5000, "\u00e9", ""],
    "Accept": ["text/event-stream" * 100, "*/*;q=" + "9" * 400, "\xff"],
    "Authorization": ["Bearer " + "x" * 5000, "Bearer \u00e9", "Bearer a b", "\u00e9", "Basic ::"],
    "Cookie": ["adaptlab_session=" + "x" * 5000, "=;=;=", "adaptlab_session=\u00e9", '"'],
    "Origin": ["http://[", "null", "\u00e9", "http://[::1"],
    "Sec-Fetch-Site": ["\u00e9", "x" * 5000],
    "Host": ["", "[", "a b", "x" * 300],
    "Content-Type": ["a" * 5000, "application/json; charset=utf-16", "\xff", ";;;", "/"],
    "X-Forwarded-For": ["'", "x" * 5000, "::1, [", "\u00e9"],
    "X-Forwarded-Proto": ["javascript", "\u00e9"],
}


@pytest.mark.long("many bad inputs")
def test_headers(
    api: TestClient, operations: list[Operation], known: dict[str, str], log: io.StringIO
) -> None:
    harmless = [one for one in operations if one.takes_json or one.method == "GET"]
    for index, one in enumerate(harmless):
        for name, texts in HEADERS.items():
            body = b"{" if one.takes_json else None
            text = texts[index % len(texts)]
            answer = api.request(
                one.method,
                one.address(known),
                content=body,
                headers=[(name.encode(), text.encode())],
            )
            assert answer.status_code < 500, (one.path, name, text[:40], answer.text[:300])
    lines_are_intact(log)


FORMS: dict[str, bytes] = {
    "no form": b"\xff\x00",
    "many fields": b"&".join(b"a=1" for _ in range(900)),
    "only separators": b"&" * 3000,
    "half escapes": b"token=%&next=%2",
    "no text": b"token=%ff%fe&next=%ed%a0%80",
    "NUL": b"token=%00&next=/%00",
    "an address with brackets": b"token=x&next=http://[",
    "another host": b"token=x&next=//elsewhere.example",
    "a script": b"token=x&next=javascript:alert(1)",
    "a line break": b"token=x&next=/%0d%0aSet-Cookie:%20owned=1",
}


def test_the_form_to_sign_in(api: TestClient) -> None:
    del api.headers["Authorization"]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for what, body in FORMS.items():
        answer = api.post("/login", content=body, headers=form)
        assert answer.status_code in (400, 401), (what, answer.status_code)
        assert "owned" not in answer.headers.get("set-cookie", "")
        for address in ("http://[", "//elsewhere.example", "javascript:alert(1)"):
            assert address not in answer.text, what
    large = api.post("/login", content=b"token=" + b"x" * 5000, headers=form)
    assert large.status_code == 413
    for kind in ("multipart/form-data; boundary=x", JSON, ""):
        other = api.post("/login", content=b"token=x", headers={"Content-Type": kind})
        assert other.status_code == 415, kind
    for origin in ("http://[", "null", "http://elsewhere.example"):
        foreign = api.post("/login", content=b"token=x", headers=form | {"Origin": origin})
        assert foreign.status_code == 403
    for wanted in ("http://[", "//x", "%0d%0aowned", "%00", "\u00e9"):
        assert api.get(f"/login?next={wanted}").status_code in (200, 400)


PAGES = (
    "/?state={}&method={}&task={}&base_model={}",
    "/?page_token={}",
    "/?trail={}",
    "/studies?page_token={}",
    "/base-models?page_token={}",
    "/jobs/{}",
    "/studies/{}",
    "/studies/{}/charts?table=0&theme={}",
    "/compare?job={}",
    "/compare/charts?job={}",
    "/recipes/{}",
    "/static/{}",
    "/static/adaptlab.css?v={}",
    "/login?next={}",
    "/{}",
)


def test_pages(api: TestClient, log: io.StringIO) -> None:
    for form in PAGES:
        for text in INJECTIONS:
            quoted = "".join(f"%{byte:02X}" for byte in text.encode())
            answer = api.get(form.replace("{}", quoted), headers={"Accept": "text/html"})
            assert answer.status_code < 500, (form, text[:40], answer.text[:300])
            assert not SQL.search(answer.text.replace(text, "")), (form, text[:40])
            if answer.headers.get("content-type", "").startswith("text/html"):
                assert "<script>" not in answer.text
                # The minute and the second of a job's time are no product.
                timeless = re.sub(r"<time\b[^>]*>[^<]*</time>", "", answer.text)
                assert "{{7*7}}" not in text or not re.search(r"\b49\b", timeless)
    lines_are_intact(log)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The server's log, line by line, each with the same beginning."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("@@ %(levelname)s %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield written
    root.setLevel(level)
    root.removeHandler(handler)


def lines_are_intact(log: io.StringIO) -> None:
    """Check that no text began a line, and that no error was logged."""
    for line in re.split(r"[\n\r\u2028\x85]", log.getvalue()):
        assert line == "" or line.startswith("@@ "), line
        assert "@@ ERROR" not in line, line
        assert "\x1b" not in line, line
