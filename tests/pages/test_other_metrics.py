"""Macro-F1 and token F1 on the pages of a job and of a comparison."""

from html import unescape

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.pages.reading import text_of
from tests.text_studies import BY_F1, BY_MACRO_F1, RECORDS, a_text_study, measure
from tests.texts import COMPLETION

from adaptlab_api.app import create_app
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]


@pytest.fixture
def api(settings: Settings, sessions: Sessions, token: str) -> TestClient:
    signed = {"Authorization": f"Bearer {token}"}
    return TestClient(create_app(settings), headers=signed)


def words_of(reader: TestClient, path: str) -> str:
    answer = reader.get(path)
    assert answer.status_code == 200
    return " ".join(unescape(text_of(answer.text)).split())


def create(api: TestClient, sessions: Sessions, *tasks: dict[str, object]) -> str:
    with api:
        for path, body in (
            ("/v1/datasets", {"name": "reviews", "records": RECORDS}),
            ("/v1/studies", a_text_study(*tasks)),
        ):
            assert (answer := api.post(path, json=body)).status_code == 201, answer.text
        measure(sessions)
        jobs = api.get("/v1/jobs", params={"filter": "metrics.token_f1.n = 3"})
        assert jobs.status_code == 200, jobs.text
        return next((job["id"] for job in jobs.json()["data"]), "")


def test_pages_have_the_metric_beside_the_score(
    reader: TestClient, api: TestClient, sessions: Sessions
) -> None:
    job = create(api, sessions, BY_F1, BY_MACRO_F1)
    page = words_of(reader, "/studies/texts")
    assert "Trained Token F1 % 95 %" in page
    assert "Macro-F1" in page
    assert "77.0 % 72.0 % to 82.0 %" in page
    assert "33.3 % 33.3 % to 33.3 %" in page
    page = words_of(reader, f"/jobs/{job}")
    assert "77.0 % 72.0 % to 82.0 % –" in page


def test_pages_without_another_metric_show_none(
    reader: TestClient, api: TestClient, sessions: Sessions
) -> None:
    create(api, sessions, dict(COMPLETION))
    page = words_of(reader, "/studies/texts")
    assert "50.0 %" in page
    assert "Token F1" not in page
    assert "measured beside it" not in page
