"""A few hundred mutated specs; `tests.security.mutate_specs` sends more."""

import json
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.security import mutate_specs
from tests.security.serving import asking

from adaptlab_api.requests import strict_json
from adaptlab_services.settings import Settings


@pytest.fixture
def client(settings: Settings, sessions: sessionmaker[Session]) -> Iterator[TestClient]:
    with asking(settings, sessions) as client:
        yield client


@pytest.mark.long("many bad inputs")
def test_mutated_specs_are_accepted_or_refused(client: TestClient) -> None:
    found = mutate_specs.run(client, 300, 20261122)
    assert found.faults == []
    assert found.outcomes.total() == 300
    for address in ("/v1/jobs", "/v1/studies", "/v1/budgets/solve"):
        assert found.outcomes[f"{address}: 200"] > 0, "some of them make sense"
        assert found.outcomes[f"{address}: 422"] > 10


def test_json_that_nobody_looks_at_is_found(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strict_json, "parse", json.loads)
    assert any("500" in fault for fault in mutate_specs.run(client, 300, 20261122).faults)
