"""Datasets that a study only watches are kept as long as it needs them."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import Run, run_all
from tests.standard_groups import staged
from tests.text_studies import RECORDS, a_text_study
from tests.texts import COMPLETION

LIMITS = {"longest": 40}
SCIENCE = {"name": "benchmark", "tasks": ["science"], "tokens": LIMITS}
ALONE = {"name": "benchmark", "tasks": ["sciq"], "tokens": LIMITS}
PROSE = {"name": "neutral_text", "dataset": "prose", "tokens": {"longest": 64, "answer": 40}}
TEXTS = [{"text": f"Plain text {n}.", "chapter": str(n // 4), "split": "test"} for n in range(24)]


@pytest.fixture
def lab(api: TestClient) -> TestClient:
    """The API with records, a staged group of two tasks, and neutral texts."""
    for name, records in {"reviews": RECORDS, "prose": TEXTS, **staged()}.items():
        made = api.post("/v1/datasets", json={"name": name, "records": records})
        assert made.status_code == 201, made.text
    return api


def a_study(lab: TestClient, *watched: dict[str, Any], name: str = "texts") -> None:
    document = a_text_study(dict(COMPLETION)) | {"name": name}
    document["evaluation"] = {"samples": 16, "tasks": [*watched]}
    made = lab.post("/v1/studies", json=document)
    assert made.status_code == 201, made.text


def needs(lab: TestClient, name: str) -> str:
    answer = lab.delete(f"/v1/datasets/{name}")
    assert answer.status_code == 409, answer.text
    return answer.json()["detail"].partition("needed by ")[2].partition(".")[0]


@pytest.mark.parametrize(
    ("watched", "kept", "free"),
    [
        (SCIENCE, ("science-0-shots", "arc_easy-0-shots", "sciq-0-shots"), ("prose",)),
        (ALONE, ("sciq-0-shots",), ("science-0-shots", "arc_easy-0-shots", "prose")),
        (PROSE, ("prose",), ("science-0-shots", "arc_easy-0-shots", "sciq-0-shots")),
    ],
)
def test_an_ended_study_keeps_what_it_watches_until_it_is_cancelled(
    lab: TestClient,
    sessions: sessionmaker[Session],
    watched: dict[str, Any],
    kept: tuple[str, ...],
    free: tuple[str, ...],
) -> None:
    a_study(lab, watched)
    run_all(sessions, lambda _: Run(right=30))
    assert {needs(lab, name) for name in kept} == {"the study texts"}
    for name in free:
        assert lab.delete(f"/v1/datasets/{name}").status_code == 204
    assert lab.post("/v1/studies/texts/cancel").status_code == 200
    for name in kept:
        assert lab.delete(f"/v1/datasets/{name}").status_code == 204


def test_other_shots_are_another_dataset(lab: TestClient, sessions: sessionmaker[Session]) -> None:
    a_study(lab, ALONE)
    run_all(sessions, lambda _: Run(right=30))
    body = {"name": "sciq-5-shots", "records": RECORDS}
    assert lab.post("/v1/datasets", json=body).status_code == 201
    assert lab.delete("/v1/datasets/sciq-5-shots").status_code == 204
