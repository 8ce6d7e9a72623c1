"""The application on a database of its own, and an admin's client."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_token, an_adapt_document
from tests.nursery import Nursery
from tests.patience import awaited_comparisons, patient_bell, patient_comparisons

from adaptlab_api.app import create_app
from adaptlab_services.settings import Settings

__all__ = ["patient_bell", "patient_comparisons"]  # found here by pytest


@pytest.fixture
def token(sessions: sessionmaker[Session]) -> str:
    """A token with every scope."""
    with sessions.begin() as session:
        return a_token(session)


@pytest.fixture
def anonymous(settings: Settings) -> Iterator[TestClient]:
    """A client without a token, which gets the server's errors as answers."""
    with TestClient(
        create_app(settings), raise_server_exceptions=False, follow_redirects=False
    ) as client:
        yield client


@pytest.fixture
def api(anonymous: TestClient, token: str) -> TestClient:
    """Somebody with a token of every scope."""
    anonymous.headers["Authorization"] = f"Bearer {token}"
    return anonymous


@pytest.fixture(scope="module")
def shared_api(
    shared_settings: Settings, shared_sessions: sessionmaker[Session]
) -> Iterator[TestClient]:
    """Somebody with a token of every scope, on the module's own database."""
    with shared_sessions.begin() as session:
        header = {"Authorization": f"Bearer {a_token(session)}"}
    client = TestClient(
        create_app(shared_settings),
        headers=header,
        raise_server_exceptions=False,
        follow_redirects=False,
    )
    with awaited_comparisons(), client:
        yield client


@pytest.fixture
def job(api: TestClient, base: None) -> str:
    """The address of a queued job, an adaptation."""
    return api.post("/v1/jobs", json=an_adapt_document()).headers["location"]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Starts servers without loading them again."""
    opened = Nursery(["adaptlab_api.server"])
    yield opened
    opened.close()
