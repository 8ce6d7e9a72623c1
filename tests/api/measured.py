"""A study that has been measured, and where its bundle is."""

from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import ENOUGH_BASES, a_measured_study, as_known, run_all
from tests.making import a_base_model

Sessions = sessionmaker[Session]
PLACE = "/v1/studies/small/bundle"


def a_study(api: TestClient, sessions: Sessions, run_of: Any = as_known, **changes: Any) -> None:
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)
    answer = api.post("/v1/studies", json=a_measured_study(**changes))
    assert answer.status_code == 201, answer.text
    run_all(sessions, run_of)
