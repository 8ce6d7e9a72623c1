"""Somebody who asks the services for things."""

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_principal
from tests.patience import patient_bell

from adaptlab_services.people.tokens import Principal

__all__ = ["patient_bell"]  # found here by pytest


@pytest.fixture
def ada(sessions: sessionmaker[Session]) -> Principal:
    """Somebody who studies."""
    with sessions.begin() as session:
        return a_principal(session)
