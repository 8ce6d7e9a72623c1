"""The application on a database of its own, and somebody who may ask it everything."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_token, an_adapt_document
from tests.patience import patient_bell, patient_comparisons, patient_locks

from adaptlab_api.app import create_app
from adaptlab_services.settings import Settings

__all__ = ["patient_bell", "patient_comparisons", "patient_locks"]  # found here by pytest


@pytest.fixture
def token(sessions: sessionmaker[Session]) -> str:
    """A token with every scope."""
    with sessions.begin() as session:
        return a_token(session)


@pytest.fixture
def anonymous(settings: Settings) -> Iterator[TestClient]:
    """Somebody without a token. A fault of the server is an answer, as it is for a real client."""
    with TestClient(
        create_app(settings), raise_server_exceptions=False, follow_redirects=False
    ) as client:
        yield client


@pytest.fixture
def api(anonymous: TestClient, token: str) -> TestClient:
    """Somebody with a token of every scope."""
    anonymous.headers["Authorization"] = f"Bearer {token}"
    return anonymous


@pytest.fixture
def job(api: TestClient, base: None) -> str:
    """The address of a queued job, an adaptation."""
    return api.post("/v1/jobs", json=an_adapt_document()).headers["location"]
