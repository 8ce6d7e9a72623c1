"""`adaptlab datasets upload`: files of all forms, words or records."""

import json
from pathlib import Path

import duckdb
import pytest
from tests.client.conftest import Invoke

from adaptlab.records.file_forms import FileForm
from adaptlab.records.file_reading import Reading
from adaptlab_client import Client
from adaptlab_client.machine.record_files import canonical, kind_of

CONTENT = '{"text":"good, really","label":"1"}\n{"text":"bad","label":"0"}\n'
FILES = {
    "reviews.csv": b'text,label\r\n"good, really",1\r\n\r\nbad,0',
    "reviews.tsv": b"text\tlabel\ngood, really\t1\nbad\t0\n",
    "reviews.ndjson": b'{"text":"good, really","label":1}\n{"label":0,"text":"bad"}\n',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    with duckdb.connect() as database:
        table = database.read_csv(str(tmp_path / "reviews.csv"))
        table.write_parquet(str(tmp_path / "reviews.parquet"))
    return tmp_path


def test_files_of_every_form_become_the_same_dataset(
    invoke: Invoke, client: Client, folder: Path, tmp_path: Path
):
    digests: set[str] = set()
    for name in (*FILES, "reviews.parquet"):
        done = invoke("datasets", "upload", "reviews", folder / name, "-o", "json")
        assert done.exit_code == 0, done.output
        assert f"{name} is read as records; --kind chooses" in done.stderr
        digests.add(json.loads(done.stdout)["digest"])
    assert len(digests) == 1
    assert client.datasets.download("reviews", tmp_path / "content").read_text() == CONTENT
    assert [*client.uploads.list()] == []


def test_both_kinds_are_listed_within_80_columns(invoke: Invoke, folder: Path):
    assert invoke("datasets", "upload", "reviews", folder / "reviews.csv").exit_code == 0
    wide = folder / "wide.jsonl"
    wide.write_text(json.dumps({f"field {number}": "x" for number in range(32)}))
    assert invoke("datasets", "upload", "wide", wide).exit_code == 0
    listed = invoke("datasets", "list", COLUMNS="80")
    assert max(map(len, listed.stdout.splitlines())) <= 80
    assert "too narrow" not in listed.stderr
    rows = {line.split()[0]: line.split() for line in listed.stdout.splitlines()}
    assert rows["reviews"][:5] == ["reviews", "records", "2", "text,", "label"]
    assert rows["generated"][:3] == ["generated", "words", "4921"]
    shown = json.loads(invoke("datasets", "show", "reviews").stdout)
    assert [field["name"] for field in shown["fields"]] == ["text", "label"]


def test_a_file_with_problems_is_not_sent(invoke: Invoke, client: Client, folder: Path):
    broken = folder / "broken.csv"
    broken.write_bytes(FILES["reviews.csv"] + b"\nx\n")
    done = invoke("datasets", "upload", "reviews", broken)
    assert done.exit_code == 2
    assert "broken.csv: Line 5: the number of columns is 1 instead of 2" in done.stderr
    assert [entry.name for entry in client.datasets.list()] == ["generated"]
    assert [*client.uploads.list()] == []


def test_kind_and_form_can_be_given(invoke: Invoke, folder: Path):
    file = folder / "animals.txt"
    file.write_text("english\tgerman\tspanish\ndog\tHund\tperro\n")
    done = invoke("datasets", "upload", "animals", file, "--kind", "records")
    assert done.exit_code == 2
    assert "--format" in done.stderr
    options = ("--kind", "records", "--format", "tsv", "-o", "json")
    done = invoke("datasets", "upload", "animals", file, *options)
    assert done.exit_code == 0, done.output
    assert "is read as" not in done.stderr
    assert json.loads(done.stdout)["records"] == 1


KINDS: dict[str, tuple[str, bytes, str]] = {
    "three tabs": ("x.tsv", b"\ndog\tHund\tperro\n", "words"),
    "a header": ("x.tsv", b"id\ttext\tlabel\n", "records"),
    "two columns": ("x.tsv", b"text\tlabel\n", "records"),
    "lists": ("x.jsonl", b'["dog","Hund","perro"]\n', "words"),
    "languages": ("x.jsonl", b'\xef\xbb\xbf{"german":"a","english":"b","spanish":"c"}', "words"),
    "objects": ("x.ndjson", b'{"english":"a","german":"b"}', "records"),
    "a list of objects": ("x.json", b'[{"text":"a","label":"b"}]', "records"),
    "no suffix": ("words", b'["dog","Hund","perro"]\n', "words"),
    "CSV": ("x.csv", b"english,german,spanish\n", "records"),
    "nothing": ("x.jsonl", b"", "records"),
    "no text": ("x.jsonl", b"\xff\xfe[", "records"),
}


@pytest.mark.parametrize(("name", "content", "kind"), KINDS.values(), ids=KINDS)
def test_the_kind_is_told_by_the_first_line(tmp_path: Path, name: str, content: bytes, kind: str):
    (tmp_path / name).write_bytes(content)
    assert kind_of(tmp_path / name, None) == kind


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
def test_records_are_written_to_a_file_that_does_not_stay(folder: Path, form: FileForm):
    source = {"csv": "reviews.csv", "tsv": "reviews.tsv", "jsonl": "reviews.ndjson"}[form]
    with canonical(folder / source, Reading(form=form)) as lines:
        assert lines.read_text() == CONTENT
    assert not lines.parent.exists()
