"""Images as values of records, and the task that reads them."""

import struct
import zlib
from typing import Any

import pytest
from tests.pictures import a_png, image_records

from adaptlab.errors import InvalidSpec
from adaptlab.records.facts import RecordsFacts
from adaptlab.records.gathering import Gatherer
from adaptlab.records.pictures import NotAPicture, picture_size, picture_text
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.spec import Choice
from adaptlab.tasks.image_classification import ImageClassification
from adaptlab.text.fitting import roles_of, task_document


def facts_of(records: list[dict[str, str]]) -> RecordsFacts:
    gatherer = Gatherer()
    list(gatherer.lines(records))
    return gatherer.facts("trees", gatherer.digest)


def resolved(facts: RecordsFacts, **members: Any) -> ImageClassification:
    document = {"name": "image_classification", "dataset": "trees", **members}
    task = resolve_task(Choice.model_validate(document), "/task", {"trees": facts})
    assert isinstance(task, ImageClassification)
    return task


def refused(facts: RecordsFacts, **members: Any) -> tuple[str, str, str]:
    with pytest.raises(InvalidSpec) as caught:
        resolved(facts, **members)
    (problem,) = caught.value.problems
    return problem.pointer, problem.code, problem.detail


def flipped(png: bytes, place: int) -> bytes:
    """The same bytes but for one bit."""
    return png[:place] + bytes([png[place] ^ 1]) + png[place + 1 :]


def header(**changes: int) -> bytes:
    """A PNG whose header says something else than its pixels."""
    known = {"width": 8, "height": 8, "depth": 8, "colour": 0} | changes
    content = b"IHDR" + struct.pack(">IIBBBBB", *known.values(), 0, 0, 0)
    png = a_png(1)
    return png[:12] + content + struct.pack(">I", zlib.crc32(content)) + png[33:]


@pytest.mark.parametrize("size", [(1, 8, 8), (3, 5, 7), (1, 1, 1024)])
def test_the_size_is_read_without_the_pixels(size: tuple[int, int, int]) -> None:
    channels, height, width = size
    assert picture_size(picture_text(a_png(3, channels, height, width))) == size


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("an oak", "does not begin with data:image/png"),
        ("data:image/png;base64,é", "not written in base64"),
        (picture_text(b"GIF89a"), "not a PNG"),
        (picture_text(a_png(1)[:-1]), "damaged"),
        (picture_text(a_png(1) + b"more"), "damaged"),
        (picture_text(a_png(1)[:33] + a_png(1)[-12:]), "damaged"),
        (picture_text(flipped(a_png(1), 50)), "damaged"),
        (picture_text(a_png(1).replace(b"IDAT", b"IDAX")), "damaged"),
        (picture_text(header(depth=16)), "8 bits per channel"),
        (picture_text(header(colour=3)), "8 bits per channel"),
        (picture_text(header(width=1025)), "1,025 × 8 pixels, more than 1,024"),
        (picture_text(header(height=0)), "8 × 0 pixels"),
    ],
)
def test_what_is_no_picture_says_why(value: str, why: str) -> None:
    with pytest.raises(NotAPicture, match=why):
        picture_size(value)


def test_a_task_knows_size_and_classes_of_its_dataset() -> None:
    facts = facts_of([*image_records(40, channels=3), {"image": "", "label": ""}][:40])
    task = resolved(facts)
    assert task.image() == (3, 8, 8)
    assert (task.class_values(), task.chance()) == (("elm", "oak"), 0.5)
    assert sum(map(task.available, ("train", "validation", "test"))) == 40
    assert resolved(facts, dataset=task.model_dump(mode="json")["dataset"]) == task


def test_what_no_dataset_of_one_size_allows_is_refused_at_its_place() -> None:
    good, large = facts_of(image_records(40)), image_records(3, height=9)
    others = facts_of([*image_records(20), *large, {"image": "none", "label": "elm"}])
    pointer, code, detail = refused(others)
    assert (pointer, code) == ("/task/image_field", "images_differ")
    assert "4 records of 'trees', the first of them record 21" in detail
    texts = facts_of([{"image": "an oak", "label": name} for name in ("elm", "oak")])
    assert refused(texts)[:2] == ("/task/image_field", "no_images")
    assert refused(good, image_field="picture")[:2] == ("/task/image_field", "unknown_field")
    assert refused(good, label={"field": "image"})[:2] == ("/task/label/field", "answer_in_prompt")
    wrong = {"classes": ["elm", "ash"]}
    with pytest.raises(InvalidSpec, match="'oak' of 'trees' has no class"):
        resolved(good, label=wrong)


def test_a_size_that_is_not_the_datasets_is_refused() -> None:
    pixels = {"channels": 1, "height": 8, "width": 9}
    assert refused(facts_of(image_records(40)), pixels=pixels)[:2] == ("/task/pixels", "other_size")


def test_more_levels_than_a_trainer_holds_are_refused_by_arithmetic() -> None:
    facts = facts_of(image_records(40)).model_copy(update={"records": 2**26})
    pointer, code, detail = refused(facts)
    assert (pointer, code) == ("/task/image_field", "too_many_levels")
    assert "67,108,864 images of 1 × 8 × 8 have 4,294,967,296 levels" in detail


def test_the_task_that_fits_is_found() -> None:
    facts = facts_of(image_records(40))
    roles = roles_of(facts)
    assert roles is not None
    document = task_document(facts, roles)
    assert resolved(facts, **{k: v for k, v in document.items() if k not in ("name", "dataset")})


def test_a_wide_image_is_written_in_few_characters() -> None:
    task = resolved(facts_of(image_records(40, channels=3, height=50, width=100)))
    lines = task.written([0] * 5000 + [255] * 5000 + [255] * 5000).split("\n")
    assert (len(lines), {len(line) for line in lines}) == (10, {20})
    assert task.written([255] * 15000).strip() == "", "white is light, unlike the ink of digits"
    assert set(task.written([0] * 15000)) == {"█", "\n"}
