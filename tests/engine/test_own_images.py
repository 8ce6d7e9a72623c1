"""Images of a dataset of one's own, from its records to a job's results."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.engine.image_models import a_tiny_vit
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.pictures import drawn, image_records
from tests.texts import Stored, stored

from adaptlab.engine.items.images import images_of
from adaptlab.engine.items.task_items import make_items
from adaptlab.errors import BadDataset
from adaptlab.plugins.splits import EVERY_SPLIT, Split
from adaptlab.records.facts import RecordsFacts
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import AttentionCaptured, Evaluated, ItemsShown
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab.specs.spec import AdaptSpec, Choice
from adaptlab.tasks.image_classification import ImageClassification
from adaptlab.weights.model_folder import check_folder
from adaptlab.weights.placed_folder import PlacedFolder

CPU = torch.device("cpu")
SIZE = {"channels": 3, "height": 8, "width": 12}
TASK = {"name": "image_classification", "dataset": "trees"}
COUNT = 60


@pytest.fixture
def trees(tmp_path: Path) -> Stored:
    records = image_records(COUNT, **SIZE)
    return stored(tmp_path, [*records, *records[:3]], "trees")


def task_of(facts: RecordsFacts, **members: object) -> ImageClassification:
    choice = Choice.model_validate({**TASK, **members})
    task = resolve_task(choice, "/task", {facts.name: facts})
    assert isinstance(task, ImageClassification)
    return task


def levels_of(task: ImageClassification, split: Split) -> list[tuple[int, ...]]:
    return [tuple(row) for row in images_of(task, split, CPU).levels.tolist()]


def test_every_image_is_in_one_split_with_its_levels_and_line(trees: Stored) -> None:
    task = task_of(trees.facts).with_texts(trees.source())
    # Channel by channel and row by row, as in every item with images.
    expected = [tuple(drawn(seed, **SIZE).transpose(2, 0, 1).ravel()) for seed in range(COUNT)]
    found = {split: levels_of(task, split) for split in EVERY_SPLIT}
    assert sorted(row for rows in found.values() for row in rows) == sorted(expected + expected[:3])
    sets = [set(rows) for rows in found.values()]
    assert len(set.union(*sets)) == sum(map(len, sets)), "equal images are in the same split"
    test = images_of(task, "test", CPU)
    assert test.lines is not None
    for row, place, line in zip(found["test"], test.classes, test.lines, strict=True):
        assert expected[(int(line) - 1) % COUNT] == row
        assert int(place) == (int(line) - 1) % COUNT % 2, "elm and oak in turns"


def test_a_field_can_name_the_splits(tmp_path: Path) -> None:
    names = ("train", "train", "val", "test")
    records = [
        {**record, "split": names[place % 4]}
        for place, record in enumerate(image_records(40, **SIZE))
    ]
    named = stored(tmp_path, records, "trees")
    task = task_of(named.facts, splits={"field": "split"}).with_texts(named.source())
    assert [len(levels_of(task, split)) for split in EVERY_SPLIT] == [20, 10, 10]
    with pytest.raises(BadDataset, match="not available here"):
        levels_of(task_of(named.facts, splits={"field": "split"}), "test")


def test_items_of_a_seed_are_images_of_its_split(trees: Stored) -> None:
    task = task_of(trees.facts).with_texts(trees.source())
    items = make_items(task, "train", torch.tensor([0, 1]), 0, 50)
    assert items.tokens.dtype == torch.int64
    train = set(levels_of(task, "train"))
    assert {tuple(row) for row in items.tokens.flatten(0, 1).tolist()} <= train
    assert not torch.equal(items.tokens[0], items.tokens[1])


def test_what_is_not_what_the_task_was_resolved_with_is_refused(trees: Stored) -> None:
    task = task_of(trees.facts)
    taller = trees.facts.field("image")
    assert taller is not None
    assert taller.pictures is not None
    pictures = taller.pictures.model_copy(update={"height": 12, "width": 8})
    fields = (taller.model_copy(update={"pictures": pictures}), *trees.facts.fields[1:])
    other = task_of(trees.facts.model_copy(update={"fields": fields}))
    with pytest.raises(BadDataset, match=r"record \d+ cannot be read: is not 3 × 12 × 8"):
        levels_of(other.with_texts(trees.source()), "test")
    trees.path.write_bytes(trees.path.read_bytes().replace(b'"oak"', b'"ash"', 1))
    with pytest.raises(BadDataset, match=r"not what the task was given|SHA-256"):
        [levels_of(task.with_texts(trees.source()), split) for split in EVERY_SPLIT]


def test_without_pillow_it_is_named(trees: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(BadDataset, match=r"adaptlab\[images\]"):
        levels_of(task_of(trees.facts).with_texts(trees.source()), "validation")


@pytest.fixture
def folder(tmp_path: Path) -> PlacedFolder:
    return a_tiny_vit(tmp_path / "vit", channels=3)


def test_a_job_scores_them_and_shows_patches(folder: PlacedFolder, tmp_path: Path) -> None:
    trees = stored(tmp_path, image_records(COUNT, channels=3), "trees")
    family = check_folder(folder.path).family
    facts = BaseModelFacts(name="vit", digest="0" * 64, family=family, task=None, replicates=1)
    document = {
        "base_model": "vit",
        "task": TASK,
        "method": {"name": "full_finetuning"},
        "training": {"steps": 3, "batch_size": 16, "validations": 1},
        "tuning": {"learning_rates": [0.003], "validation_samples": 4},
        "seeds": 1,
        "capture": {"attention": {"samples": 2}},
    }
    spec = resolve(AdaptSpec.model_validate(document), facts, trees.datasets)
    assert isinstance(spec, ResolvedAdapt)
    told = Remembering()
    run(spec, (), tmp_path, told, "cpu", folder=folder, datasets=(trees.path,))
    assert Expected.of(spec).problems(told.events) == ()
    (shown,) = told.of(ItemsShown)
    lines = [item.line for item in shown.items]
    assert [item.expected.text for item in shown.items] == [
        ("elm", "oak")[((line or 0) - 1) % COUNT % 2] for line in lines
    ]
    score = next(event.evaluation for event in told.of(Evaluated) if event.evaluation.attached)
    assert score.total == task_of(trees.facts).available("test")
    first = told.of(AttentionCaptured)[0].attention
    assert [len(text.words) for text in first.texts] == [1 + 2 * 2] * 2
    assert np.load(told.of(AttentionCaptured)[0].path).shape[-1] == 1 + 2 * 2
