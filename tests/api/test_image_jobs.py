"""Jobs with images over HTTP, without torch and without the images."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.api.rooted import with_a_root
from tests.folders import a_vit_folder
from tests.pictures import image_records

from adaptlab_services.settings import Settings

ADAPT: dict[str, Any] = {
    "kind": "adapt",
    "base_model": {"kind": "import", "name": "vit", "folder": "models/vit"},
    "task": {"name": "digit_images", "digits": [5, 6, 7, 8, 9]},
    "method": {"name": "prefix_tuning", "length": 3},
    "evaluation": {"samples": 1000},
}
BLOCK = 4 * (8 * 8 + 8) + (10 * 8 + 10) + (8 * 10 + 8) + 4 * 8
PARAMETERS = 8 + 5 * 8 + (8 * 16 + 8) + 2 * BLOCK + 2 * 8
HEAD = 5 * 8 + 5


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path) -> Settings:
    root = a_vit_folder(tmp_path / "root" / "vit").parent
    return with_a_root(database_url, broker_url, tmp_path, root)


def test_a_model_of_images_and_its_adaptation_are_counted(api: TestClient) -> None:
    answer = api.post("/v1/jobs", json=ADAPT)
    assert answer.status_code == 201, answer.text
    resolved = answer.json()["resolved_spec"]
    assert resolved["budget"]["trainable_parameters"] == 2 * 3 * 8 + HEAD
    assert resolved["evaluation_samples"] == 35 + 42 + 49 + 50 + 42, "every image once"
    assert api.get("/v1/base-models/vit").json()["parameters"] == PARAMETERS


@pytest.mark.parametrize(
    ("changes", "pointer", "code"),
    [
        ({"task": "copy"}, "/task", "other_items"),
        ({"task": {"name": "digit_images", "digits": [3]}}, "/task/digits", None),
        ({"task": {"name": "digit_images", "digits": [3, 3]}}, "/task/digits", "class_twice"),
        (
            {"capture": {"attention": {"inputs": [[0] * 64]}}},
            "/capture/attention/inputs",
            "inputs_of_images",
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_at_its_place(
    changes: dict[str, Any], pointer: str, code: str | None, api: TestClient
) -> None:
    answer = api.post("/v1/jobs", json={**ADAPT, **changes})
    assert answer.status_code == 422, answer.text
    (problem,) = answer.json()["errors"]
    assert problem["pointer"] == pointer
    assert code in (None, problem["code"])


OWN: dict[str, Any] = {"name": "image_classification", "dataset": "trees"}


def uploaded(api: TestClient, **size: int) -> None:
    body = {"name": "trees", "records": image_records(40, **size)}
    answer = api.post("/v1/datasets", json=body)
    assert answer.status_code == 201, answer.text


def test_images_of_ones_own_are_a_dataset_of_records(api: TestClient) -> None:
    uploaded(api)
    field, label = api.get("/v1/datasets/trees").json()["fields"]
    assert field["pictures"] == {
        "channels": 1, "height": 8, "width": 8, "others": 0, "first_other": None
    }  # fmt: skip
    assert label["pictures"] is None
    answer = api.post("/v1/jobs", json={**ADAPT, "task": OWN})
    assert answer.status_code == 201, answer.text
    task = answer.json()["resolved_spec"]["task"]
    assert task["label"]["classes"] == ["elm", "oak"]
    assert task["pixels"] == {"channels": 1, "height": 8, "width": 8}
    assert answer.json()["resolved_spec"]["budget"]["trainable_parameters"] == 2 * 3 * 8 + 2 * 8 + 2


def test_images_of_another_size_than_the_models_are_refused(api: TestClient) -> None:
    uploaded(api, channels=3)
    answer = api.post("/v1/jobs", json={**ADAPT, "task": OWN})
    assert answer.status_code == 422, answer.text
    (problem,) = answer.json()["errors"]
    assert (problem["pointer"], problem["code"]) == ("/task", "other_items")
    assert "3 × 8 × 8" in problem["detail"]
