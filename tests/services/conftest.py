"""Somebody who asks the services for things."""

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_principal

from adaptlab_services.tokens import Principal


@pytest.fixture
def ada(sessions: sessionmaker[Session]) -> Principal:
    """Somebody who studies."""
    with sessions.begin() as session:
        return a_principal(session)
