"""Groups of items, from the task to the reported scores."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.engine.text_jobs import pretraining
from tests.pictures import image_records
from tests.texts import CLASSIFICATION, reviews, stored, without

from adaptlab.engine.items.images import images_of
from adaptlab.engine.items.task_items import clusters_of
from adaptlab.errors import InvalidSpec
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import Evaluated, Event, ItemsShown
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.spec import Choice

GROUPED = without(CLASSIFICATION, cluster="document", splits={"test": 0.4})
TRAINING = {"steps": 2, "batch_size": 8, "learning_rate": 0.01}


def records(count: int = 300, *, of_each: int = 10, split: bool = False) -> list[dict[str, str]]:
    """Reviews, `of_each` of one document, whose name is written in two ways."""
    rows: list[dict[str, str]] = []
    for place, review in enumerate(reviews(count)):
        number = place // of_each
        row = {**review, "document": f"Doc {number}" if place % 2 else f"doc-{number}"}
        if split:
            row["split"] = ("test", "train", "dev")[place % 3]
        rows.append(row)
    return rows


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Expected, Remembering]:
    folder = tmp_path_factory.mktemp("grouped")
    data = stored(folder, records())
    seen = {"samples": 60, "shown": 60}
    spec = pretraining(data, GROUPED, training=TRAINING, evaluation=seen)
    watching = Remembering()
    run(spec, (), folder, watching, "cpu", datasets=(data.path,))
    return Expected.of(spec), watching


def test_items_are_reported_with_their_groups(told: tuple[Expected, Remembering]) -> None:
    expected, watching = told
    assert expected.problems(watching.events) == ()
    (shown,) = watching.of(ItemsShown)
    documents = [(item.line or 0) - 1 for item in shown.items]
    numbers: dict[int, int] = {}
    right = tuple(numbers.setdefault(line // 10, len(numbers)) for line in documents)
    assert 1 < len(numbers) < 60
    assert {event.evaluation.clusters for event in watching.of(Evaluated)} == {right}


@pytest.mark.parametrize(
    ("clusters", "code"),
    [((), "wrong_length"), ((0,) * 61, "wrong_length"), ((0,) * 59 + (2,), "not_in_order"),
     ((-1,) + (0,) * 59, "not_in_order")],
)  # fmt: skip
def test_groups_that_fit_no_items_are_refused(
    told: tuple[Expected, Remembering], clusters: tuple[int, ...], code: str
) -> None:
    expected, watching = told

    def changed(event: Event) -> Event:
        if not isinstance(event, Evaluated):
            return event
        evaluation = event.evaluation.model_copy(update={"clusters": clusters})
        return event.model_copy(update={"evaluation": evaluation})

    problems = expected.problems([changed(event) for event in watching.events])
    assert {problem.code for problem in problems} == {code}


def test_groups_stay_together_by_default_and_no_split_takes_them_apart(tmp_path: Path) -> None:
    data = stored(tmp_path, records())
    task: Any = resolve_task(Choice.model_validate(GROUPED), "/task", data.datasets)
    assert task.splits.by == "document"
    for changes, pointer in (
        ({"splits": {"by": "text"}}, "/task/splits/by"),
        ({"cluster": "dokument"}, "/task/cluster"),
    ):
        with pytest.raises(InvalidSpec) as caught:
            resolve_task(Choice.model_validate(without(GROUPED, **changes)), "/task", data.datasets)
        assert caught.value.problems[0].pointer == pointer


def test_splits_of_the_file_that_take_a_group_apart_are_refused(tmp_path: Path) -> None:
    data = stored(tmp_path, records(split=True))
    task = data.task(without(GROUPED, splits={"field": "split"}))
    with pytest.raises(InvalidSpec, match="line 2 of the dataset") as caught:
        clusters_of(task, "test", 20)
    assert caught.value.problems[0].pointer == "/task/cluster"


def test_a_task_without_groups_has_none(tmp_path: Path) -> None:
    assert clusters_of(stored(tmp_path, reviews(300)).task(CLASSIFICATION), "test", 20) == ()


def test_images_of_one_group_stay_together(tmp_path: Path) -> None:
    images = image_records(60, channels=3, height=8, width=12)
    rows = [{**row, "tree": f"tree {place // 5}"} for place, row in enumerate(images)]
    data = stored(tmp_path, rows, "trees")
    spec = {"name": "image_classification", "dataset": "trees", "cluster": "tree"}
    task: Any = resolve_task(Choice.model_validate(spec), "/task", data.datasets)
    assert task.splits.by == "tree"
    task = task.with_texts(data.source())
    lines = images_of(task, "test", torch.device("cpu")).lines
    assert lines is not None
    numbers: dict[int, int] = {}
    right = tuple(numbers.setdefault((line - 1) // 5, len(numbers)) for line in lines.tolist())
    assert len(numbers) > 1
    assert clusters_of(task, "test", len(right)) == right
