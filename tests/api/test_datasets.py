"""Words are uploaded, found and used by jobs; others are refused."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.api.sending import sent
from tests.making import a_pretrain_document, a_token

from adaptlab.plugins.generated_words import generated_words
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import Artifact, Dataset, Job

Sessions = sessionmaker[Session]
ANIMALS = [
    ["dog", "Hund", "perro"],
    ["ant", "Ameise", "hormiga"],
    ["cat", "Katze", "gato"],
]
LINES = (
    b'{"english":"ant","german":"Ameise","spanish":"hormiga"}\n'
    b'{"english":"cat","german":"Katze","spanish":"gato"}\n'
    b'{"english":"dog","german":"Hund","spanish":"perro"}\n'
)
DIGEST = hashlib.sha256(LINES).hexdigest()
ORIGIN = {"package": "trans-de-en", "version": "1.9-6", "licence": "GPL-2+", "sha256": "a" * 64}


def new(**changes: Any) -> dict[str, Any]:
    return {"name": "animals", "sources": [ORIGIN], "triples": ANIMALS} | changes


def upload(api: TestClient, **changes: Any) -> dict[str, Any]:
    answer = api.post("/v1/datasets", json=new(**changes))
    assert answer.status_code == 201, answer.text
    return answer.json()


def problem(api: TestClient, body: Mapping[str, Any], status: int = 422) -> dict[str, Any]:
    answer = api.post("/v1/datasets", json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    return found


def test_what_was_uploaded_is_found_again(api: TestClient) -> None:
    answer = api.post("/v1/datasets", json=new())
    assert answer.status_code == 201
    assert answer.headers["location"] == "/v1/datasets/animals"
    found = api.get("/v1/datasets/animals").json()
    assert found == answer.json()
    assert (found["source"], found["digest"]) == ("imported", DIGEST)
    assert (found["triples"], found["size"], found["longest"]) == (3, len(LINES), 7)
    assert found["lengths"] == [0, 0, 0, 0, 2, 0, 1]
    assert found["characters"] == "AHKacdeghimnoprstuz"
    assert found["sources"] == [ORIGIN]


def test_its_content_is_canonical_whatever_order_it_came_in(api: TestClient) -> None:
    upload(api)
    content = api.get("/v1/datasets/animals/content")
    assert content.content == LINES
    assert content.headers["etag"] == f'"{DIGEST}"'
    assert content.headers["content-type"] == "application/jsonl"
    objects = [
        dict(zip(("spanish", "german", "english"), reversed(t), strict=True)) for t in ANIMALS
    ]
    same = upload(api, name="again", triples=objects[::-1], sources=[])
    assert same["digest"] == DIGEST
    part = api.get("/v1/datasets/again/content", headers={"Range": "bytes=0-9"})
    assert (part.status_code, part.content) == (206, LINES[:10])


def test_the_same_words_again_change_nothing_and_others_are_refused(
    api: TestClient, sessions: Sessions
) -> None:
    first = upload(api)
    again = api.post("/v1/datasets", json=new())
    assert (again.status_code, again.json()) == (200, first)
    refused = problem(api, new(triples=[*ANIMALS, ["hen", "Henne", "gallina"]]), 409)
    assert DIGEST in refused["detail"]
    with sessions.begin() as session:
        assert session.scalars(select(func.count()).select_from(Artifact)).one() == 1


def test_the_generated_list_is_one_of_the_datasets(api: TestClient) -> None:
    for name in ("zoo", "animals"):
        upload(api, name=name)
    first = api.get("/v1/datasets", params={"page_size": 2}).json()
    rest = api.get(
        "/v1/datasets", params={"page_size": 2, "page_token": first["next_page_token"]}
    ).json()
    listed = [*first["data"], *rest["data"]]
    assert [one["name"] for one in listed] == ["animals", "generated", "zoo"]
    assert rest["next_page_token"] is None
    generated = api.get("/v1/datasets/generated").json()
    assert generated == listed[1]
    assert generated["digest"] == generated_words().digest
    assert generated["source"] == "generated"
    assert generated["links"]["content"] is None
    assert api.get("/v1/datasets/generated/content").status_code == 404
    assert problem(api, new(name="generated"))["errors"][0]["code"] == "reserved_name"


BAD: dict[str, Any] = {
    "no words": {"triples": []},
    "one word": {"triples": ANIMALS[:1]},
    "a word twice": {"triples": [*ANIMALS, ["dog", "Rüde", "can"]]},
    "two forms": {"triples": [*ANIMALS, ["hen", "Henne"]]},
    "four forms": {"triples": [*ANIMALS, ["hen", "Henne", "gallina", "poule"]]},
    "an unknown language": {"triples": [*ANIMALS, {"english": "hen", "french": "poule"}]},
    "a number": {"triples": [*ANIMALS, ["hen", "Henne", 3]]},
    "an empty word": {"triples": [*ANIMALS, ["hen", "", "gallina"]]},
    "markup": {"triples": [*ANIMALS, ["hen", "<b>Henne</b>", "gallina"]]},
    "a newline": {"triples": [*ANIMALS, ["hen\n", "Henne", "gallina"]]},
    "direction marks": {"triples": [*ANIMALS, ["hen", "Hen\u202ene", "gallina"]]},
    "combining marks": {"triples": [*ANIMALS, ["hen", "He\u0301nne", "gallina"]]},
    "emoji": {"triples": [*ANIMALS, ["hen", "🐔", "gallina"]]},
    "only a hyphen": {"triples": [*ANIMALS, ["hen", "-", "gallina"]]},
    "49 letters": {"triples": [*ANIMALS, ["h" * 49, "Henne", "gallina"]]},
    "too many characters": {
        "triples": [[chr(0x4E00 + i), chr(0x5000 + i), "x"] for i in range(129)],
    },
    "a path for a name": {"name": "../animals"},
    "a long name": {"name": "a" * 64},
    "no name": {"name": ""},
    "a wrong digest": {"sources": [ORIGIN | {"sha256": "x"}]},
    "an origin without a licence": {"sources": [{"package": "a", "version": "1"}]},
    "many origins": {"sources": [ORIGIN] * 17},
    "something else": {"words": 3},
}


@pytest.mark.long("many bad inputs", but=8)
@pytest.mark.parametrize("changes", BAD.values(), ids=BAD)
def test_nothing_else_is_taken_for_words(
    api: TestClient, sessions: Sessions, changes: Mapping[str, Any]
) -> None:
    found = problem(api, new(**changes))
    assert found["errors"][0]["pointer"].startswith(f"/{next(iter(changes))}")
    with sessions.begin() as session:
        assert session.scalars(select(func.count()).select_from(Dataset)).one() == 0
        assert session.scalars(select(func.count()).select_from(Artifact)).one() == 0


def test_a_body_too_large_is_refused(api: TestClient) -> None:
    triples = [[f"{'abcdefghij'[i % 10] * 40}", "x", "y"] for i in range(30_000)]
    assert api.post("/v1/datasets", json=new(triples=triples)).status_code == 413


def test_who_may_only_read_uploads_nothing(anonymous: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        token = a_token(session, "reader", scopes=("read",))
    anonymous.headers["Authorization"] = f"Bearer {token}"
    problem(anonymous, new(), 403)
    assert anonymous.get("/v1/datasets").status_code == 200


def test_what_is_not_there_is_not_found(api: TestClient) -> None:
    for path in ("/v1/datasets/plants", "/v1/datasets/plants/content"):
        assert api.get(path).status_code == 404


# Words that come as an upload


def from_upload(content: bytes, api: TestClient, **changes: Any) -> httpx2.Response:
    body = {"name": "animals", "upload": sent(api, content), "sources": [ORIGIN]}
    return api.post("/v1/datasets", json=body | changes)


def test_words_that_were_uploaded_are_the_same_dataset(api: TestClient) -> None:
    here = upload(api, name="here")
    content = b"".join(b"%s\r\n\n" % json.dumps(triple).encode() for triple in ANIMALS)
    made = from_upload(content, api)
    assert (made.status_code, made.headers["location"]) == (201, "/v1/datasets/animals")
    assert {**made.json(), "name": "", "links": "", "created_at": ""} == {
        **here, "name": "", "links": "", "created_at": "",
    }  # fmt: skip
    assert from_upload(content, api).status_code == 200, "the upload stays until it is deleted"
    tabs = "\r\n".join("\t".join(triple) for triple in ANIMALS).encode()
    assert from_upload(tabs, api, format="tsv", name="tabs").json()["digest"] == DIGEST
    assert from_upload(LINES, api, name="canonical").json()["digest"] == DIGEST


@pytest.mark.long("large uploads and slow clients")
def test_more_words_than_a_body_may_have_come_as_an_upload(api: TestClient) -> None:
    """As many as a dataset may have, of which no two share an English word."""
    words = ("".join(chr(97 + int(digit)) for digit in f"{n:06d}") for n in range(100_000))
    content = "".join(f'["{word}","{word[::-1]}","{word * 3}"]\n' for word in words).encode()
    assert len(content) > 3 * 2**20
    made = from_upload(content, api)
    assert (made.status_code, made.json()["triples"]) == (201, 100_000)
    refused = from_upload(content + b'["one","too","many"]', api, name="more")
    assert refused.json()["errors"][0]["nearest"] == [100_000]


BAD_LINES: dict[str, tuple[bytes, str]] = {
    "two words": (b'["a","b","c"]\n["d","e"]', "Line 2 "),
    "a number": (b'["a","b","c"]\n\n["d","e",1]', "Line 3 "),
    "markup": (b'["a","b","<b>"]', "Line 1 "),
    "no JSON": (b"a\tb\tc\n", "Line 1 "),
    "NUL": (b'["a","b","c\\u0000"]', "Line 1 "),
    "half a pair": (b'["a","b","\\ud800"]', "Line 1 "),
    "not UTF-8": (b'["a","b","\xff"]', "Line 1 "),
    "depth": (b"[" * 4000, "Line 1 "),
    "one line": (b"[" * 5000, "4,096 bytes"),
    "one word": (b'["a","b","c"]', "2 to 100,000"),
    "a word twice": (b'["a","b","c"]\n["a","d","e"]', "occurs twice"),
}


@pytest.mark.parametrize(("content", "told"), BAD_LINES.values(), ids=BAD_LINES)
def test_an_upload_of_something_else_is_refused(api: TestClient, content: bytes, told: str) -> None:
    refused = from_upload(content, api)
    assert refused.status_code == 422, refused.text
    (first, *_) = refused.json()["errors"]
    assert first["pointer"] == "/upload"
    assert told in first["detail"]
    assert api.get("/v1/datasets/animals").status_code == 404


def test_only_a_complete_upload_has_words(api: TestClient) -> None:
    body = {"size_bytes": len(LINES), "sha256": DIGEST}
    opened = api.post("/v1/uploads", json=body).json()["id"]
    assert "is not complete" in problem(api, {"name": "x", "upload": opened}, 409)["detail"]
    problem(api, {"name": "x", "upload": str(uuid4())}, 404)
    for changes in ({"upload": "x"}, {"upload": opened, "format": "csv"}):
        found = problem(api, {"name": "x"} | changes)
        assert found["errors"][0]["pointer"] == f"/{[*changes][-1]}"
    both = problem(api, new(upload=opened))
    assert both["errors"][0]["pointer"] == "/triples"


# Jobs


def word_job(**knobs: Any) -> dict[str, Any]:
    task = {"name": "word_translation", "dataset": "animals"} | knobs
    return a_pretrain_document(task=task, evaluation={"tasks": [task], "samples": 6})


def test_a_job_names_its_dataset_by_digest(api: TestClient) -> None:
    upload(api)
    made = api.post("/v1/jobs", json=word_job()).json()
    task = made["resolved_spec"]["task"]
    assert task["dataset"] == {
        "name": "animals", "digest": DIGEST, "source": "imported",
        "characters": "AHKacdeghimnoprstuz",
    }  # fmt: skip
    assert (task["words"], task["longest"]) == (3, 7)
    assert made["spec"]["task"]["dataset"] == "animals"
    assert made["resolved_spec"]["family"]["vocabulary"] == 21
    assert made["resolved_spec"]["family"]["context"] == 8 + 8 - 1


def test_without_a_dataset_the_generated_list_is_named(api: TestClient) -> None:
    task = {"name": "word_translation", "words": 50, "longest": 8}
    body = a_pretrain_document(task=task, evaluation={"samples": 50})
    made = api.post("/v1/jobs", json=body).json()
    dataset = made["resolved_spec"]["task"]["dataset"]
    assert (dataset["name"], dataset["source"]) == ("generated", "generated")
    assert dataset["digest"] == generated_words().digest


def test_a_job_on_words_that_are_not_there_says_so(api: TestClient) -> None:
    answer = api.post("/v1/jobs", json=word_job())
    assert answer.status_code == 422
    (first, *_) = answer.json()["errors"]
    assert (first["pointer"], first["code"]) == ("/task/dataset", "unknown_dataset")
    upload(api)
    too_many = api.post("/v1/jobs", json=word_job(words=4)).json()["errors"][0]
    assert (too_many["pointer"], too_many["nearest"]) == ("/task/words", [3])


def test_too_few_words_for_every_split_are_refused_with_the_number_that_is_enough(
    api: TestClient,
) -> None:
    asked = {"dataset": "generated", "held_out": True}
    answer = api.post("/v1/jobs", json=word_job(words=2, **asked))
    assert answer.status_code == 422
    (found,) = answer.json()["errors"]
    assert (found["pointer"], found["code"]) == ("/task/words", "empty_split")
    (enough,) = found["nearest"]
    accepted = api.post("/v1/jobs", json=word_job(words=enough, **asked))
    assert accepted.status_code == 201, accepted.text
    # Of an uploaded list the server knows no words here: the job says so as it makes its items.
    upload(api)
    few = word_job(dataset="animals", words=2, held_out=True) | {"name": "few"}
    assert api.post("/v1/jobs", json=few).status_code == 201


def test_a_study_and_a_budget_may_ask_uploaded_words(api: TestClient) -> None:
    upload(api)
    task = {"name": "word_translation", "dataset": "animals"}
    question = {"family": "minigpt", "task": task, "budget": 5000, "methods": ["lora"]}
    assert api.post("/v1/budgets/solve", json=question).status_code == 200
    base = word_job() | {"name": "words-base"}
    study = {
        "name": "words",
        "base_models": [base],
        "tasks": [task, {**task, "target": "spanish"}],
        "methods": ["lora"],
        "budgets": [5000],
    }
    made = api.post("/v1/studies", json=study)
    assert made.status_code == 201, made.text
    cells = {cell["task"] for cell in made.json()["cells"]}
    spanish = "word_translation(dataset=animals, target=spanish)"
    assert cells == {"word_translation(dataset=animals)", spanish}


def test_the_content_of_a_dataset_is_kept(api: TestClient, sessions: Sessions) -> None:
    upload(api)
    with sessions.begin() as session:
        assert not ArtifactStore(session).discard(DIGEST)
    assert api.get("/v1/datasets/animals/content").content == LINES


def test_a_forged_reference_is_refused(api: TestClient, sessions: Sessions) -> None:
    upload(api)
    resolved = api.post("/v1/jobs?validate_only=true", json=word_job()).json()["resolved_spec"]
    reference = resolved["task"]["dataset"]
    assert api.post("/v1/jobs", json=word_job(dataset=reference)).status_code == 201
    for member, value in (("digest", "0" * 64), ("characters", "abc"), ("source", "generated")):
        forged = word_job(dataset=json.loads(json.dumps(reference)) | {member: value})
        assert api.post("/v1/jobs", json=forged | {"name": "x"}).status_code == 422
    with sessions.begin() as session:
        assert session.scalars(select(func.count()).select_from(Job)).one() == 1
