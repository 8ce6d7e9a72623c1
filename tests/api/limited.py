"""The application with limits of the test's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi.testclient import TestClient

from adaptlab_api.app import create_app
from adaptlab_services.settings import Settings


@contextmanager
def a_server(settings: Settings, token: str, **limits: Any) -> Iterator[TestClient]:
    """A server with other limits."""
    headers = {"Authorization": f"Bearer {token}"}
    with TestClient(create_app(settings.model_copy(update=limits)), headers=headers) as client:
        yield client
