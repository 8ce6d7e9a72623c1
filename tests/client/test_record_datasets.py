"""Records are uploaded, inline or as a file, and come back unchanged."""

import hashlib
import json
from pathlib import Path

import pytest

from adaptlab_client import Client
from adaptlab_client.errors import Conflict, InvalidRequest, NotFound
from adaptlab_client.resources import datasets

REVIEWS = [{"text": "Good, „so“ good.", "label": "pos"}, {"text": "", "label": "neg"}]
LINES = "".join(
    json.dumps(review, ensure_ascii=False, separators=(",", ":")) + "\n" for review in REVIEWS
).encode()
ORIGIN = {"package": "reviews", "version": "1", "licence": "MIT"}


def test_records_come_back(client: Client, tmp_path: Path) -> None:
    made = client.datasets.upload_records("reviews", REVIEWS, [ORIGIN])
    assert (made.kind, made.records, made.copies, made.triples) == ("records", 2, 0, None)
    assert made.digest == hashlib.sha256(LINES).hexdigest()
    assert client.datasets.get("reviews") == made
    assert made.fields is not None
    text, label = made.fields
    assert (text.name, text.longest, text.empty) == ("text", 20, 1)
    assert [(value.value, value.count) for value in label.values or ()] == [("neg", 1), ("pos", 1)]
    listed = {dataset.name: dataset.kind for dataset in client.datasets.list()}
    assert listed == {"generated": "words", "reviews": "records"}
    assert client.datasets.download("reviews", tmp_path / "here").read_bytes() == LINES


def test_more_than_a_body_may_have_is_the_same(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{"number": number, "half": number / 2, "odd": number % 2 > 0} for number in range(9)]
    inline = client.datasets.upload_records("inline", records)
    monkeypatch.setattr(datasets, "INLINE_BYTES", 10)
    sent = client.datasets.upload_records("sent", records)
    assert sent.digest == inline.digest
    assert [*client.uploads.list()] == [], "deleted when it was used"
    assert client.datasets.upload_records("sent", records) == sent
    with pytest.raises(Conflict, match="with other records"):
        client.datasets.upload_records("sent", records[1:])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("reviews.csv", 'text,label\n"Good, „so“ good.",pos\n,neg\n'),
        ("reviews.TSV", "text\tlabel\nGood, „so“ good.\tpos\n\tneg\n"),
        ("reviews.jsonl", LINES.decode()),
    ],
)
def test_a_file_has_the_form_of_its_name(
    client: Client, tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content)
    made = client.datasets.upload_file("reviews", tmp_path / name, [ORIGIN], kind="records")
    assert made.digest == hashlib.sha256(LINES).hexdigest()
    assert made.sources[0].package == "reviews"


def test_problems_name_lines_and_nothing_is_created(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "broken.csv"
    file.write_text("text,label\n" + "a\n" * 20)
    with pytest.raises(InvalidRequest, match=r"Line 2: .*19 more lines"):
        client.datasets.upload_file("broken", file, kind="records")
    with pytest.raises(InvalidRequest, match="records"):
        client.datasets.upload_records("broken", [])
    with pytest.raises(InvalidRequest, match="Record 2"):
        client.datasets.upload_records("broken", [{"a": "b"}, {"c": "d"}])
    assert [dataset.name for dataset in client.datasets.list()] == ["generated"]


def test_a_deleted_dataset_is_gone(client: Client) -> None:
    client.datasets.upload_records("reviews", REVIEWS)
    client.datasets.delete("reviews")
    assert [dataset.name for dataset in client.datasets.list()] == ["generated"]
    with pytest.raises(NotFound):
        client.datasets.delete("reviews")
    with pytest.raises(Conflict, match="part of every server"):
        client.datasets.delete("generated")
