"""Perplexity on the pages of a job and of a comparison."""

from html import unescape

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.pages.reading import text_of
from tests.text_studies import BY_PERPLEXITY, RECORDS, a_text_study, measure

from adaptlab_api.app import create_app
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]


@pytest.fixture
def job(settings: Settings, sessions: Sessions, token: str) -> str:
    """The id of a job of a measured study."""
    signed = {"Authorization": f"Bearer {token}"}
    study = a_text_study(BY_PERPLEXITY) | {"tuning": {"trials": 2}}
    with TestClient(create_app(settings), headers=signed) as api:
        dataset = {"name": "reviews", "records": RECORDS}
        for path, body in (("/v1/datasets", dataset), ("/v1/studies", study)):
            assert (answer := api.post(path, json=body)).status_code == 201, answer.text
        measure(sessions)
        jobs = api.get("/v1/jobs", params={"filter": "metrics.perplexity.n = 3"}).json()
        return str(jobs["data"][0]["id"])


def words_of(reader: TestClient, path: str) -> str:
    answer = reader.get(path)
    assert answer.status_code == 200
    return " ".join(unescape(text_of(answer.text)).split())


def test_pages_have_it_beside_the_score(reader: TestClient, job: str) -> None:
    page = words_of(reader, "/studies/texts")
    assert "lower is better Per seed" in page
    assert "6 3.91 to 9.03" in page
    assert "600.0 %" not in page
    page = words_of(reader, f"/jobs/{job}")
    assert ", lower is better 6 3.52 to 8.48 1e+30" in page, "the base's is not finite"
    assert "Loss on test items" in page
    assert "0.0 % 5 completed" in page
    assert "5.0 % 4 completed, chosen" in page


@pytest.mark.usefixtures("job")
def test_the_finding_begins_with_its_order(reader: TestClient) -> None:
    page = words_of(reader, "/studies/texts")
    assert "LoRA (6) and prefix-tuning (6) work, in an order that 3 seeds cannot show" in page
