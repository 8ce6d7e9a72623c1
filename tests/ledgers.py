"""The doors of workers, each of which keeps the same promises."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

import httpx
import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_ledger, a_user

from adaptlab_api.app import create_app
from adaptlab_services.leases.leases import Ledger
from adaptlab_services.people.tokens import create_token
from adaptlab_services.settings import Settings
from adaptlab_worker.ledger.api_connection import ApiConnection
from adaptlab_worker.ledger.http_ledger import HttpLedger

BESIDE, BY_THE_API = "beside the database", "by the API"
WAYS = (BESIDE, BY_THE_API)
only_beside_the_database = pytest.mark.parametrize("ledger", [BESIDE], indirect=True)
"""For what takes long, or looks at statements, and cannot be another thing by the API."""


@contextmanager
def ledger_by(way: str, sessions: sessionmaker[Session], settings: Settings) -> Generator[Ledger]:
    """A worker's ledger, on its way to the test's own database."""
    if way == BESIDE:
        yield a_ledger(sessions)
        return
    token = a_worker_token(sessions)
    headers = {"Authorization": f"Bearer {token}"}
    app = create_app(settings)
    with TestClient(app, headers=headers, raise_server_exceptions=False) as client:
        yield HttpLedger(ApiConnection(cast("httpx.Client", client)))


def a_worker_token(sessions: sessionmaker[Session], project_id: int | None = None) -> str:
    """A token that opens leases, and nothing else."""
    with sessions.begin() as session:
        owner = a_user(session, "cluster")
        return create_token(session, owner, "of workers", ("worker",), None, project_id)
