"""`GET /v1/jobs/{id}/answers/{task}/{item}/picture`: images of test items."""

import io
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import person
from tests.api.rooted import with_a_root
from tests.folders import a_vit_folder
from tests.pages.showing_pictures import (
    DIGITS,
    OWN,
    SPEC,
    a_job_with_images,
    running_with_images,
    upload,
)
from tests.pictures import a_png

from adaptlab.records.pictures import grey_png, picture_text
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
STUDY = {
    "name": "trees",
    "base_models": [SPEC["base_model"]],
    "tasks": [OWN],
    "methods": ["head_only"],
    "budgets": [1000],
    "seeds": 1,
    "training": {"steps": 4, "batch_size": 4},
    "tuning": {"trials": 1},
    "evaluation": {"shown": 3},
}


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path) -> Settings:
    root = a_vit_folder(tmp_path / "root" / "vit").parent
    return with_a_root(database_url, broker_url, tmp_path, root)


def address(job: UUID, item: object = 0, task: object = 0) -> str:
    return f"/v1/jobs/{job}/answers/{task}/{item}/picture"


def test_an_item_has_the_image_of_its_line(api: TestClient, sessions: Sessions) -> None:
    upload(api)
    job = a_job_with_images(api, sessions, OWN, (40, 1, 17)).job_id
    for item, line in enumerate((40, 1, 17)):
        answer = api.get(address(job, item))
        assert answer.status_code == 200, answer.text
        assert answer.content == a_png(line - 1)
        assert answer.headers["content-type"] == "image/png"
        assert "private" in answer.headers["cache-control"]
    again = api.get(address(job), headers={"If-None-Match": api.get(address(job)).headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_what_is_not_there_is_answered_with_the_reason(api: TestClient, sessions: Sessions) -> None:
    upload(api)
    job = a_job_with_images(api, sessions, OWN, (40, 1, 17)).job_id

    def detail(path: str, status: int = 404) -> str:
        answer = api.get(path)
        assert answer.status_code == status, answer.text
        return answer.json()["detail"]

    assert "shows no item 3 of task 0" in detail(address(job, 3))
    assert "shows no item 2147483647" in detail(address(job, 2**31 - 1))
    assert "Task 1 of the job" in detail(address(job, task=1))
    assert "no job" in detail(address(UUID(int=9)))
    for path in (address(job, -1), address(job, "x"), address(job, 2**31), address(job, task=-1)):
        assert api.get(path).status_code == 422


def test_projects_see_pictures_of_their_own_and_of_shared_studies(
    anonymous: TestClient, sessions: Sessions
) -> None:
    owner = person(sessions, "owner", {"here": "submitter", "there": "submitter"})
    neighbour = person(sessions, "neighbour", {"there": "reader"})
    here: dict[str, Any] = {"headers": owner, "params": {"project": "here"}}
    upload(anonymous, **here)
    study = anonymous.post("/v1/studies", json=STUDY, **here).json()
    job = running_with_images(sessions, OWN, (40, 1, 17)).job_id
    assert anonymous.get(address(job), headers=owner).content == a_png(39)
    refused = anonymous.get(address(job), headers=neighbour)
    assert refused.status_code == 404
    assert "There is no job" in refused.json()["detail"]
    shares = f"/v1/studies/{study['id']}/shares"
    shared = anonymous.post(shares, json={"project": "there"}, headers=owner)
    assert shared.status_code == 200
    assert anonymous.get(address(job), headers=neighbour).content == a_png(39)
    assert anonymous.get(address(job)).status_code == 401


def test_a_damaged_image_is_named(api: TestClient, sessions: Sessions) -> None:
    damaged = bytearray(a_png(1))
    damaged[40] ^= 1
    upload(api)
    claim = a_job_with_images(api, sessions, OWN, (40, 1, 17))
    right, wrong = (picture_text(png).encode() for png in (a_png(0), bytes(damaged)))
    with sessions.begin() as session:
        change = "UPDATE artifact_chunks SET content = overlay(content placing :new from :at)"
        content = session.execute(
            text("SELECT content FROM artifact_chunks WHERE position(:old in content) > 0"),
            {"old": right},
        ).scalar_one()
        places = {"new": wrong[: len(right)], "at": bytes(content).index(right) + 1}
        session.execute(
            text(f"{change} WHERE position(:old in content) > 0"), places | {"old": right}
        )
    answer = api.get(address(claim.job_id, 1))
    assert answer.status_code == 404
    assert "The image of item 1 is a damaged PNG." in answer.json()["detail"]
    assert api.get(address(claim.job_id, 0)).status_code == 200


def test_pictures_go_with_their_dataset(api: TestClient, sessions: Sessions) -> None:
    upload(api)
    job = a_job_with_images(api, sessions, OWN, (40, 1, 17)).job_id
    with sessions.begin() as session:
        session.execute(text("UPDATE artifacts SET state = 'collected', reason = 'unused'"))
    answer = api.get(address(job))
    assert answer.status_code == 404
    assert "The dataset 'trees' has been deleted" in answer.json()["detail"]


def test_digits_are_drawn_in_the_order_of_their_test_items(
    api: TestClient, sessions: Sessions
) -> None:
    job = a_job_with_images(api, sessions, DIGITS, (None,) * 3).job_id
    answer = api.get(address(job, 2))
    assert answer.status_code == 200, answer.text
    with Image.open(io.BytesIO(answer.content)) as image:
        assert (image.mode, image.size) == ("L", (8, 8))
    assert len({api.get(address(job, item)).content for item in range(3)}) == 3


def test_a_grey_png_is_what_pillow_reads() -> None:
    levels = np.random.default_rng(3).integers(0, 256, (5, 7), dtype=np.uint8)
    with Image.open(io.BytesIO(grey_png(levels.tobytes(), 7))) as image:
        assert np.array_equal(np.asarray(image), levels)
