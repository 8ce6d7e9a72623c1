"""Files below a root become datasets; of others nothing is left."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import httpx2
import psutil
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import person
from tests.making import a_project

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.record import Record
from adaptlab_api.app import create_app
from adaptlab_db.tables import ArtifactChunk, Dataset
from adaptlab_services.models import dataset_files, record_datasets
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
LINES = b'{"text":"good, really","label":"1"}\n{"text":"bad","label":"0"}\n'
DIGEST = hashlib.sha256(LINES).hexdigest()
FILES = {
    "reviews.csv": b'text,label\r\n"good, really",1\r\n\r\nbad,0',
    "reviews.tsv": b"text\tlabel\ngood, really\t1\nbad\t0\n",
    "reviews.ndjson": b'{"text":"good, really","label":1}\n{"label":0,"text":"bad"}\n',
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with the same records in every form, beside a private file."""
    root = tmp_path / "library"
    (root / "deep").mkdir(parents=True)
    for name, content in FILES.items():
        (root / name).write_bytes(content)
    with duckdb.connect() as database:
        table = database.read_csv(str(root / "reviews.csv"))
        table.write_parquet(str(root / "reviews.parquet"))
    (tmp_path / "secret.csv").write_bytes(FILES["reviews.csv"])
    return root


@pytest.fixture
def settings(settings: Settings, root: Path) -> Settings:
    roots = {"library": root, "nowhere": root / "none"}
    return settings.model_copy(update={"dataset_roots": roots, "max_dataset_bytes": 4096})


def add(
    api: TestClient, file: object, who: Mapping[str, str] | None = None, **changes: Any
) -> httpx2.Response:
    body = {"name": "reviews", "kind": "records", "file": file}
    return api.post("/v1/datasets", json=body | changes, headers=who)


def refusal(answer: httpx2.Response) -> Mapping[str, Any]:
    """The only error, without paths of the server."""
    assert answer.status_code == 422, answer.text
    assert "/tmp" not in answer.text
    assert "pytest" not in answer.text
    (problem,) = answer.json()["errors"]
    return problem


def left(sessions: Sessions) -> Sequence[int]:
    with sessions() as session:
        tables = (Dataset, ArtifactChunk)
        return [session.scalars(select(func.count()).select_from(one)).one() for one in tables]


def test_files_of_every_form_become_the_same_dataset(api: TestClient) -> None:
    made = add(api, "library/reviews.csv")
    assert (made.status_code, made.headers["location"]) == (201, "/v1/datasets/reviews")
    assert made.json()["digest"] == DIGEST
    for name in (*FILES, "reviews.parquet"):
        again = add(api, f"library/{name}")
        assert (again.status_code, again.json()) == (200, made.json())
    assert api.get("/v1/datasets/reviews/content").content == LINES


def test_a_dataset_stays_when_its_file_changes_or_goes(api: TestClient, root: Path) -> None:
    assert add(api, "library/reviews.csv").status_code == 201
    (root / "reviews.csv").write_text("text,label\nfine,1\nbad,0\n")
    refused = add(api, "library/reviews.csv")
    assert (refused.status_code, DIGEST in refused.json()["detail"]) == (409, True)
    (root / "reviews.csv").unlink()
    assert api.get("/v1/datasets/reviews/content").content == LINES


def test_a_name_without_a_form_needs_one(api: TestClient, root: Path) -> None:
    (root / "reviews.csv").rename(root / "reviews.txt")
    problem = refusal(add(api, "library/reviews.txt"))
    assert (problem["pointer"], problem["code"]) == ("/format", "unknown_form")
    assert add(api, "library/reviews.txt", format="csv").status_code == 201
    (root / "reviews.txt").rename(root / "reviews.csv.gz")
    packed = refusal(add(api, "library/reviews.csv.gz"))
    assert packed["detail"] == "'reviews.csv.gz' is compressed (gzip). Unpack it."


PATHS: dict[str, tuple[object, str]] = {
    "another root": ("mine/reviews.csv", "unknown_dataset_root"),
    "an absolute path": ("/etc/passwd", "unknown_dataset_root"),
    "a root without a folder": ("nowhere/reviews.csv", "no_such_file"),
    "no such file": ("library/none.csv", "no_such_file"),
    "below a file": ("library/reviews.csv/x", "no_such_file"),
    "up": ("library/../secret.csv", "not_a_file_name"),
    "up and down": ("library/deep/../reviews.csv", "not_a_file_name"),
    "a slash at the end": ("library/reviews.csv/", "not_a_file_name"),
    "a line feed": ("library/reviews\n.csv", "not_a_file_name"),
    "the root": ("library", "is_a_folder"),
    "a hub": ("hub:lab/reviews", "not_a_file_name"),
    "a folder": ("library/deep", "is_a_folder"),
    "a long name": (f"library/{'x' * 500}.csv", "no_such_file"),
    "a long path": (f"library/{'x/' * 600}", "string_too_long"),
    "a number": (7, "string_type"),
    "nothing": ("", "string_too_short"),
}


def test_what_is_no_file_below_a_root_is_refused(api: TestClient, sessions: Sessions) -> None:
    for what, (file, code) in PATHS.items():
        problem = refusal(add(api, file))
        assert (problem["pointer"], problem["code"]) == ("/file", code), what
    assert left(sessions) == [0, 0]


def _link_out(place: Path) -> None:
    place.symlink_to(place.parent.parent / "secret.csv")


def _folder_link_out(place: Path) -> None:
    place.parent.rmdir()
    place.parent.symlink_to(place.parent.parent.parent)
    (place.parent.resolve() / place.name).write_text("text\nprivate\n")


def _unreadable(place: Path) -> None:
    place.write_text("text\nprivate\n")
    place.chmod(0)


SPECIAL: dict[str, tuple[Callable[[Path], object], str]] = {
    "link.csv": (_link_out, "leads_out_of_root"),
    "deep/link.csv": (_folder_link_out, "leads_out_of_root"),
    "circle.csv": (lambda place: place.symlink_to(place), "no_such_file"),
    "pipe.csv": (os.mkfifo, "no_such_file"),
    "large.csv": (lambda place: place.write_bytes(b"x" * 4097), "too_many_bytes"),
    "empty.csv": (lambda place: place.write_bytes(b""), "no_records"),
    "bad.parquet": (lambda place: place.write_bytes(b"PAR1" * 9), "not_parquet"),
    "bad.csv": (lambda place: place.write_text("a,b\nc\n"), "missing_field"),
}


def test_special_files_are_refused(api: TestClient, sessions: Sessions, root: Path) -> None:
    for name, (make, code) in SPECIAL.items():
        make(root / name)
        problem = refusal(add(api, f"library/{name}"))
        assert (problem["pointer"], problem["code"]) == ("/file", code), name
    assert left(sessions) == [0, 0]


def test_a_link_within_the_root_is_followed(api: TestClient, root: Path) -> None:
    (root / "deep" / "link.csv").symlink_to(root / "reviews.csv")
    assert add(api, "library/deep/link.csv").json()["digest"] == DIGEST


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_named(api: TestClient, root: Path) -> None:
    _unreadable(root / "x.csv")
    assert refusal(add(api, "library/x.csv"))["code"] == "no_permission"


def test_a_file_that_changes_while_it_is_read_is_refused(
    api: TestClient, sessions: Sessions, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = root / "reviews.csv"
    plain = record_datasets.read_records

    def growing(*given: Any) -> Any:
        records = plain(*given)
        yield next(records)
        os.utime(place, ns=(1, 1))
        yield from records

    monkeypatch.setattr(record_datasets, "read_records", growing)
    assert refusal(add(api, "library/reviews.csv"))["code"] == "file_has_changed"
    assert left(sessions) == [0, 0]


def test_parquet_that_is_larger_than_its_file_is_refused(api: TestClient, root: Path) -> None:
    with duckdb.connect() as database:
        table = database.sql("SELECT repeat('x', 500) AS text FROM range(100)")
        table.write_parquet(str(root / "bomb.parquet"))
    assert (root / "bomb.parquet").stat().st_size < 4096
    assert refusal(add(api, "library/bomb.parquet"))["code"] == "too_many_bytes"
    assert readers() == []


def test_a_refusal_ends_the_process_that_reads(
    api: TestClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[object] = []  # what a traceback keeps alive, such as that of a logged error

    def refused(pieces: Iterator[bytes], *_: object) -> Iterator[Record]:
        kept.append(pieces)
        next(pieces)
        raise InvalidSpec(Problem("/file", "wrong_value", "not like this"))

    monkeypatch.setattr(dataset_files, "read_records", refused)
    monkeypatch.setattr(dataset_files, "check_size", lambda *_: None)
    with duckdb.connect() as database:
        table = database.sql("SELECT repeat('x', 500) AS text FROM range(40000)")
        table.write_parquet(str(root / "large.parquet"))
    assert refusal(add(api, "library/large.parquet"))["code"] == "wrong_value"
    assert kept
    assert readers() == []


def readers() -> list[int]:
    """Return the processes of this one that read Parquet."""
    children = psutil.Process().children(recursive=True)
    return [child.pid for child in children if dataset_files.MODULE in child.cmdline()]


def test_without_roots_the_answer_says_what_to_do(settings: Settings, token: str) -> None:
    bare = settings.model_copy(update={"dataset_roots": {}})
    with TestClient(create_app(bare), headers={"Authorization": f"Bearer {token}"}) as api:
        problem = refusal(add(api, "library/reviews.csv"))
    assert problem["code"] == "no_dataset_roots"
    assert "datasets upload" in problem["detail"]
    assert "ADAPTLAB_DATASET_ROOTS" in problem["detail"]


def test_readers_cannot_add_and_projects_are_apart(api: TestClient, sessions: Sessions) -> None:
    assert add(api, "library/reviews.csv").status_code == 201
    reader = person(sessions, "rob", {"default": "reader"})
    assert add(api, "library/reviews.csv", reader, name="mine").status_code == 403
    with sessions.begin() as session:
        a_project(session, "vision")
    other = person(sessions, "sue", {"vision": "submitter"})
    assert api.get("/v1/datasets/reviews", headers=other).status_code == 404
    assert add(api, "library/reviews.tsv", other).status_code == 201


def test_other_members_are_refused(api: TestClient) -> None:
    others = {"upload": "x", "records": [], "kind": "words", "format": "xls"}
    for name, value in others.items():
        body = {"name": "reviews", "kind": "records", "file": "library/reviews.csv"}
        answer = api.post("/v1/datasets", json=body | {name: value})
        assert answer.status_code == 422, answer.text
        assert f"/{name}" in [one["pointer"] for one in answer.json()["errors"]]
