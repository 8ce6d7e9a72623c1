"""Test items that are not scored or not shown are named before a job runs."""

from pathlib import Path
from typing import Any

import pytest
from tests.texts import COMPLETION, Stored, reviews, stored

from adaptlab.plugins.dataset import Datasets
from adaptlab.specs.evaluation_warnings import evaluation_warnings
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import EvaluationSpec, PretrainSpec
from adaptlab.text.splitting import SplitsByField

LARGE, SMALL = 3300, 40


def with_test_records(folder: Path, name: str, count: int) -> Stored:
    """A dataset with this many test records, and 60 others."""
    splits = ["train"] * 50 + ["validation"] * 10 + ["test"] * count
    records = reviews(len(splits))
    rows = [{**one, "split": split} for one, split in zip(records, splits, strict=True)]
    return stored(folder, rows, name)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Datasets:
    folder = tmp_path_factory.mktemp("data")
    both = (("large", LARGE), ("small", SMALL))
    return {n: with_test_records(folder, n, count).facts for n, count in both}


def task(name: str) -> dict[str, Any]:
    splits = SplitsByField(field="split").model_dump(mode="json")
    return {**COMPLETION, "dataset": name, "splits": splits}


def warnings(datasets: Datasets, *names: str, seeds: int = 1, **evaluation: Any) -> tuple[str, ...]:
    asked = {"tasks": [task(name) for name in names], **evaluation}
    spec = PretrainSpec.model_validate(
        {
            "name": "base",
            "family": {"name": "minigpt", "layers": 1, "heads": 2, "width": 8},
            "task": task(names[0]),
            "seeds": seeds,
            "evaluation": asked,
        }
    )
    job = resolve(spec, None, datasets)
    return evaluation_warnings(EvaluationSpec.model_validate(asked), (job, job))


def test_items_that_the_default_leaves_out_are_counted(datasets: Datasets) -> None:
    assert warnings(datasets, "large") == (
        "3,200 of the 3,300 test items of text_completion of large are scored, unless "
        "evaluation.samples is set; it can be up to 3,300.",
    )
    assert warnings(datasets, "large", samples=3200) == ()
    assert warnings(datasets, "large", samples=5000) == ()


def test_a_task_with_few_items_limits_no_other(datasets: Datasets) -> None:
    assert warnings(datasets, "small", "large") == warnings(datasets, "large")
    assert warnings(datasets, "large", "small", samples=400) == ()
    assert warnings(datasets, "small") == (), "all items are scored"


def test_generated_items_have_no_limit(datasets: Datasets) -> None:
    digits = {"name": "sort_ascending", "length": 3, "alphabet": 4}
    spec = PretrainSpec.model_validate(
        {"name": "base", "family": {"name": "minigpt", "layers": 1, "heads": 2, "width": 8},
         "task": digits}
    )  # fmt: skip
    assert evaluation_warnings(spec.evaluation, [resolve(spec, None)]) == ()
