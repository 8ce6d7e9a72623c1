"""Every operation of the description; `schema_fuzz` asks more often."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.security import schema_fuzz
from tests.security.serving import asking

from adaptlab_api.routes import catalogue
from adaptlab_services.settings import Settings


@pytest.fixture
def client(settings: Settings, sessions: sessionmaker[Session]) -> Iterator[TestClient]:
    with asking(settings, sessions) as client:
        yield client


@pytest.mark.long("many bad inputs")
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_operation_answers_as_it_is_described(client: TestClient) -> None:
    """Allowed and forbidden requests: no 5xx, and described answers only."""
    found = schema_fuzz.run(client, examples=4)
    assert found.faults == {}
    assert found.asked.total() > 150
    assert len(found.asked) > 40


@pytest.mark.long("tests of tests")
def test_an_answer_that_is_not_described_is_found(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a bug at heart")

    monkeypatch.setattr(catalogue.catalogue, "methods", broken)
    found = schema_fuzz.run(client, examples=2, only="GET /v1/methods")
    assert "GET /v1/methods: RuntimeError was raised" in found.faults
