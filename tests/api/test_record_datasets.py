"""Records are uploaded and found; others are refused, and nothing is left."""

import asyncio
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import person, somebody
from tests.api.sending import sent
from tests.making import a_pretrain_document

from adaptlab.records.facts import RecordsFacts
from adaptlab_api.answers.state import resources_of
from adaptlab_api.app import create_app
from adaptlab_api.routes import datasets as routes
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import Artifact, ArtifactChunk, Dataset
from adaptlab_services.models import datasets, record_uploads
from adaptlab_services.settings import Settings
from adaptlab_services.storage import staged_content
from adaptlab_services.storage.collecting import collect

Sessions = sessionmaker[Session]
REVIEWS = [
    {"text": "Good.", "label": "pos"},
    {"text": "Bad, „so“ bad.", "label": "neg"},
    {"text": "Good.", "label": "pos"},
    {"text": " ", "label": "neg"},
]
LINES = "".join(
    json.dumps(review, ensure_ascii=False, separators=(",", ":")) + "\n" for review in REVIEWS
).encode()
DIGEST = hashlib.sha256(LINES).hexdigest()
CSV = 'text,label\nGood.,pos\n"Bad, „so“ bad.",neg\r\nGood.,pos\n\n" ",neg\n'.encode()
TSV = "text\tlabel\nGood.\tpos\nBad, „so“ bad.\tneg\nGood.\tpos\n \tneg".encode()
FOREVER = timedelta(days=1)
ORIGIN = {"package": "reviews", "version": "1", "licence": "MIT"}


def new(**changes: Any) -> dict[str, Any]:
    return {"name": "reviews", "records": REVIEWS} | changes


def from_upload(api: TestClient, content: bytes, **changes: Any) -> httpx2.Response:
    body = {"name": "reviews", "kind": "records", "upload": sent(api, content)}
    return api.post("/v1/datasets", json=body | changes)


def errors(answer: httpx2.Response) -> Sequence[Mapping[str, Any]]:
    assert answer.status_code == 422, answer.text
    found: list[dict[str, Any]] = answer.json()["errors"]
    return found


def left(sessions: Sessions) -> tuple[int, ...]:
    """The numbers of datasets, of artifacts and of chunks."""
    with sessions() as session:
        counts = (
            session.scalars(select(func.count()).select_from(table)).one()
            for table in (Dataset, Artifact, ArtifactChunk)
        )
        return tuple(counts)


def test_records_in_a_request_are_a_dataset(api: TestClient) -> None:
    made = api.post("/v1/datasets", json=new(sources=[ORIGIN]))
    assert (made.status_code, made.headers["location"]) == (201, "/v1/datasets/reviews")
    found = api.get("/v1/datasets/reviews").json()
    assert found == made.json()
    assert (found["kind"], found["digest"], found["size"]) == ("records", DIGEST, len(LINES))
    assert (found["records"], found["copies"]) == (4, 1)
    assert [found[name] for name in ("triples", "longest", "lengths", "characters")] == [None] * 4
    text, label = found["fields"]
    assert (text["name"], text["longest"], text["empty"]) == ("text", 18, 1)
    assert label["values"] == [{"value": "neg", "count": 2}, {"value": "pos", "count": 2}]


@pytest.mark.parametrize(("form", "content"), [("csv", CSV), ("tsv", TSV), ("jsonl", LINES)])
def test_an_upload_of_any_form_is_the_same_dataset(
    api: TestClient, form: str, content: bytes
) -> None:
    here = api.post("/v1/datasets", json=new(name="here")).json()
    made = from_upload(api, content, format=form)
    assert made.status_code == 201, made.text
    other = dict.fromkeys(("name", "links", "created_at", "reading"))
    assert {**made.json(), **other} == {**here, **other}
    stored = api.get("/v1/datasets/reviews/content")
    assert (stored.content, stored.headers["etag"]) == (LINES, f'"{DIGEST}"')
    assert stored.headers["content-type"] == "application/jsonl"


def test_values_that_are_no_text_become_text(api: TestClient) -> None:
    records = [{"number": 12, "share": 0.5, "is": True}, {"number": -1, "share": 2, "is": False}]
    made = api.post("/v1/datasets", json=new(records=records))
    assert made.status_code == 201, made.text
    lines = b'{"number":"12","share":"0.5","is":"true"}\n{"number":"-1","share":"2","is":"false"}\n'
    assert api.get("/v1/datasets/reviews/content").content == lines


def test_the_same_again_changes_nothing_and_other_content_is_refused(
    api: TestClient, sessions: Sessions
) -> None:
    first = from_upload(api, CSV, format="csv")
    before = left(sessions)
    again = api.post("/v1/datasets", json=new())
    assert (again.status_code, again.json()) == (200, first.json())
    assert from_upload(api, CSV, format="csv").status_code == 200
    assert left(sessions) == before
    other = api.post("/v1/datasets", json=new(records=REVIEWS[:2]))
    assert other.status_code == 409
    assert DIGEST in other.json()["detail"]


def test_words_are_not_records_of_the_same_content(api: TestClient) -> None:
    triples = [["ant", "Ameise", "hormiga"], ["cat", "Katze", "gato"]]
    words = api.post("/v1/datasets", json={"name": "animals", "triples": triples}).json()
    assert (words["kind"], words["records"], words["fields"]) == ("words", None, None)
    lines = api.get("/v1/datasets/animals/content").content
    refused = from_upload(api, lines, name="animals")
    assert (refused.status_code, "with words" in refused.json()["detail"]) == (409, True)
    made = from_upload(api, lines, name="records")
    assert (made.status_code, made.json()["digest"]) == (201, words["digest"])
    back = api.post("/v1/datasets", json={"name": "records", "triples": triples})
    assert (back.status_code, "with records" in back.json()["detail"]) == (409, True)


def test_both_kinds_are_listed_without_values(api: TestClient) -> None:
    triples = [["ant", "Ameise", "hormiga"], ["cat", "Katze", "gato"]]
    api.post("/v1/datasets", json={"name": "animals", "kind": "words", "triples": triples})
    made = api.post("/v1/datasets", json=new()).json()
    listed = api.get("/v1/datasets").json()["data"]
    assert [(one["name"], one["kind"]) for one in listed] == [
        ("animals", "words"), ("generated", "words"), ("reviews", "records"),
    ]  # fmt: skip
    without = [{**field, "values": None} for field in made["fields"]]
    assert listed[2] == {**made, "fields": without}


def test_tasks_know_the_facts_with_buckets(api: TestClient, sessions: Sessions) -> None:
    api.post("/v1/datasets", json=new())
    with sessions() as session:
        known = datasets.known(session)
        assert list(known) == ["reviews"]
        facts = known["reviews"]
    assert isinstance(facts, RecordsFacts)
    assert (facts.digest, facts.records, list(facts.names())) == (DIGEST, 4, ["text", "label"])
    text, label = facts.fields
    assert {number for number in text.buckets if number} == {1, 2}
    assert sum(text.buckets) == sum(label.buckets) == 4


def test_a_task_of_words_refuses_records(api: TestClient) -> None:
    api.post("/v1/datasets", json=new())
    task = {"name": "word_translation", "dataset": "reviews"}
    (problem,) = errors(api.post("/v1/jobs", json=a_pretrain_document(task=task)))
    assert (problem["pointer"], problem["code"]) == ("/task/dataset", "not_words")
    assert "text, label" in problem["detail"]


BAD: dict[str, tuple[bytes, str, str]] = {
    "only names": (b"text,label\n", "csv", "no_records"),
    "no such column": (b"text,label\na,b\nc\n", "csv", "missing_field"),
    "one column more": (b"text\tlabel\na\tb\tc\n", "tsv", "unknown_field"),
    "33 columns": (",".join(f"c{n}" for n in range(33)).encode(), "csv", "too_many_fields"),
    "a name with braces": (b"{text}\na\n", "csv", "bad_field_name"),
    "a list": (b'["a","b"]\n', "jsonl", "not_an_object"),
    "no keys": (b'{"a":1}\n{}\n', "jsonl", "missing_field"),
    "NUL": (b'{"a":"\\u0000"}\n', "jsonl", "nul_character"),
    "half a pair": (b'{"a":"\\ud800"}\n', "jsonl", "lone_surrogate"),
    "not UTF-8": (b"a\n\xc3\xa9\n\xc3\xa9\n\xff\n", "csv", "not_utf8"),
    "depth": (b'{"a":' * 100_000, "jsonl", "not_json"),
    "a long line": (b'{"a":"%s"}\n' % (b"x" * 2**20), "jsonl", "line_too_long"),
    "an open quote": (b'a,b\n"x,y\n' + b"x,y\n" * 2**18, "csv", "line_too_long"),
}


@pytest.mark.long("many bad inputs", but=5)
@pytest.mark.parametrize(("content", "form", "code"), BAD.values(), ids=BAD)
def test_something_else_is_refused_and_leaves_nothing(
    api: TestClient, sessions: Sessions, content: bytes, form: str, code: str
) -> None:
    upload = sent(api, content)
    before = left(sessions)
    body = {"name": "reviews", "kind": "records", "upload": upload, "format": form}
    (problem,) = errors(api.post("/v1/datasets", json=body))
    assert (problem["pointer"], problem["code"]) == ("/upload", code)
    assert left(sessions) == before


def test_equal_errors_are_one(api: TestClient) -> None:
    content = b"text,label\n" + b"a,b\n" * 3 + b"a,b,c\n" * 20 + b"a\n" * 7
    first, second = errors(from_upload(api, content, format="csv"))
    assert first["detail"].startswith("Line 5: ")
    assert "19 more lines" in first["detail"]
    assert second["detail"].startswith("Line 25: ")
    records = [{"text": "a"}] + [{"txt": "a"}] * 20
    (inline,) = errors(api.post("/v1/datasets", json=new(records=records)))
    assert (inline["pointer"], "19 more records" in inline["detail"]) == ("/records", True)


REQUESTS: dict[str, tuple[dict[str, Any], str]] = {
    "no records": ({"records": []}, "/records"),
    "no list": ({"records": {"text": "a"}}, "/records"),
    "no object": ({"records": ["a"]}, "/records/0"),
    "words too": ({"triples": []}, "/triples"),
    "another kind": ({"kind": "words"}, "/kind"),
    "a reserved name": ({"name": "generated"}, "/name"),
    "a form": ({"format": "csv"}, "/format"),
}


@pytest.mark.parametrize(("changes", "pointer"), REQUESTS.values(), ids=REQUESTS)
def test_a_wrong_request_names_its_place(
    api: TestClient, sessions: Sessions, changes: Mapping[str, Any], pointer: str
) -> None:
    assert pointer in [
        one["pointer"] for one in errors(api.post("/v1/datasets", json=new(**changes)))
    ]
    assert left(sessions) == (0, 0, 0)


def test_kinds_and_forms_of_uploads_are_checked(api: TestClient) -> None:
    for changes in ({"kind": "pictures"}, {"format": "xls"}, {"records": REVIEWS}):
        (problem, *_) = errors(from_upload(api, LINES, **changes))
        assert problem["pointer"] == f"/{next(iter(changes))}"
    assert errors(api.post("/v1/datasets", json={"name": "x", "kind": "records"}))


def test_values_without_end_are_not_kept(api: TestClient) -> None:
    many = "".join(f"v{number},{number % 1025}\n" for number in range(20_000))
    made = from_upload(api, f"a,b\n{many}".encode(), format="csv").json()
    assert [field["values"] for field in made["fields"]] == [None, None]
    long = [{"a": "x" * 257}, {"a": "y"}]
    made = api.post("/v1/datasets", json=new(name="long", records=long)).json()
    assert (made["fields"][0]["values"], made["fields"][0]["longest"]) == (None, 257)


# Limits


@contextmanager
def limited(settings: Settings, api: TestClient, **changes: Any) -> Iterator[TestClient]:
    """The same client of an application with other settings."""
    with TestClient(create_app(settings.model_copy(update=changes))) as client:
        client.headers.update(api.headers)
        yield client


def test_a_large_upload_is_refused_before_it_is_read(
    settings: Settings, api: TestClient, sessions: Sessions
) -> None:
    with limited(settings, api, max_dataset_bytes=len(LINES) - 1) as small:
        upload = sent(small, LINES)
        before = left(sessions)
        body = {"name": "reviews", "kind": "records", "upload": upload}
        (problem,) = errors(small.post("/v1/datasets", json=body))
    assert (problem["code"], problem["nearest"]) == ("too_many_bytes", [len(LINES) - 1])
    assert left(sessions) == before


def test_reading_ends_when_its_time_is_over(
    settings: Settings, api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "READING_SHARE", 0.0)
    upload = sent(api, LINES)
    before = left(sessions)
    body = {"name": "reviews", "kind": "records", "upload": upload}
    (problem,) = errors(api.post("/v1/datasets", json=body))
    assert (problem["pointer"], problem["code"]) == ("/upload", "takes_too_long")
    assert left(sessions) == before


def test_one_upload_is_read_at_a_time(api: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "PATIENCE_SECONDS", 0.05)
    upload = sent(api, LINES)
    body = {"name": "reviews", "kind": "records", "upload": upload}
    turns = resources_of(cast("FastAPI", api.app)).readings
    with ThreadPoolExecutor(1) as own:  # a browser of other tests leaves a loop running in this one
        own.submit(asyncio.run, turns.acquire()).result()
    busy = api.post("/v1/datasets", json=body)
    assert (busy.status_code, busy.headers["retry-after"]) == (429, "5")
    assert api.post("/v1/datasets", json=new(name="inline")).status_code == 201
    turns.release()
    assert api.post("/v1/datasets", json=body).status_code == 201


def test_a_quota_counts_the_content(settings: Settings, api: TestClient) -> None:
    with limited(settings, api, max_stored_bytes=3 * len(LINES) - 1) as small:
        body = {"name": "reviews", "kind": "records", "upload": sent(small, LINES)}
        assert small.post("/v1/datasets", json=body).status_code == 201
        used = small.get("/v1/me").json()["usage"]["stored_bytes"]
        assert used == 2 * len(LINES), "the upload counts until it is deleted"
        assert small.post("/v1/datasets", json=body | {"name": "again"}).status_code == 429
        assert small.post("/v1/datasets", json=new(name="inline")).status_code == 429
        listed = small.get("/v1/datasets").json()["data"]
    assert [one["name"] for one in listed] == ["generated", "reviews"]


# Permissions


def test_a_reader_creates_nothing(api: TestClient, sessions: Sessions) -> None:
    upload = sent(api, LINES)
    before = left(sessions)
    body = {"name": "reviews", "kind": "records", "upload": upload}
    reader = somebody(sessions, "reader", "reader")
    narrow = somebody(sessions, "narrow", "submitter", "read")
    for header in (reader, narrow):
        assert api.post("/v1/datasets", json=body, headers=header).status_code == 403
        assert api.post("/v1/datasets", json=new(), headers=header).status_code == 403
    assert left(sessions) == before


def test_the_upload_of_another_user_is_not_found(api: TestClient, sessions: Sessions) -> None:
    body = {"name": "reviews", "kind": "records", "upload": sent(api, LINES)}
    other = somebody(sessions, "other")
    assert api.post("/v1/datasets", json=body, headers=other).status_code == 404
    assert api.post("/v1/datasets", json=body).status_code == 201


def test_projects_do_not_see_each_other(api: TestClient, sessions: Sessions) -> None:
    ours = person(sessions, "ann", {"ours": "submitter"})
    theirs = person(sessions, "bob", {"theirs": "submitter"})
    assert api.post("/v1/datasets", json=new(), headers=ours).status_code == 201
    for path in ("/v1/datasets/reviews", "/v1/datasets/reviews/content"):
        assert api.get(path, headers=ours).status_code == 200
        assert api.get(path, headers=theirs).status_code == 404
    listed = api.get("/v1/datasets", headers=theirs).json()["data"]
    assert [one["name"] for one in listed] == ["generated"]
    other = api.post("/v1/datasets", json=new(records=REVIEWS[:2]), headers=theirs)
    assert (other.status_code, other.json()["project"]) == (201, "theirs")


def test_a_role_in_another_project_is_refused_before_anything_is_read(
    api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = person(sessions, "eve", {"ours": "reader", "theirs": "submitter"})
    api.headers.update(mixed)
    body = {"name": "reviews", "kind": "records", "upload": sent(api, LINES)}
    before = left(sessions)
    with monkeypatch.context() as patched:
        patched.setattr(record_uploads, "streamed", None)
        for document in (body, new()):
            refused = api.post("/v1/datasets?project=ours", json=document)
            assert refused.status_code == 403
    assert left(sessions) == before
    assert api.post("/v1/datasets?project=theirs", json=body).status_code == 201


# Storage


def test_two_requests_at_once_create_one(api: TestClient, sessions: Sessions) -> None:
    bodies = [
        {"name": "reviews", "kind": "records", "upload": sent(api, LINES)},
        {"name": "reviews", "kind": "records", "upload": sent(api, LINES)},
        new(),
        new(records=REVIEWS[:2]),
    ]
    with ThreadPoolExecutor(4) as pool:
        answers = [*pool.map(lambda body: api.post("/v1/datasets", json=body), bodies)]
    codes = sorted(answer.status_code for answer in answers)
    assert codes in ([200, 200, 201, 409], [201, 409, 409, 409])
    assert left(sessions)[0] == 1
    with sessions() as session:
        states = set(session.scalars(select(Artifact.state)))
    assert states == {"ready"}


def test_the_content_stays_when_the_upload_is_deleted(api: TestClient, sessions: Sessions) -> None:
    upload = sent(api, LINES)
    body = {"name": "reviews", "kind": "records", "upload": upload}
    api.post("/v1/datasets", json=body)
    assert api.delete(f"/v1/uploads/{upload}").status_code == 204
    with sessions.begin() as session:
        assert not ArtifactStore(session).discard(DIGEST)
    collect(sessions, unreferenced_for=-FOREVER)
    assert api.get("/v1/datasets/reviews/content").content == LINES


@pytest.mark.parametrize("failing", ["put_rows", "settle"])
def test_an_abort_leaves_nothing(
    api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    upload = sent(api, CSV)
    before = left(sessions)

    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left")

    place = staged_content if failing == "put_rows" else ArtifactStore
    monkeypatch.setattr(place, failing, fail)
    body = {"name": "reviews", "kind": "records", "upload": upload, "format": "csv"}
    assert api.post("/v1/datasets", json=body).status_code == 500
    assert left(sessions) == before
    monkeypatch.undo()
    assert api.post("/v1/datasets", json=body).status_code == 201
