"""Killable servers and the nursery, shared by all runs of a session."""

from collections.abc import Iterator

import pytest
from tests.chaos.killable import killable_servers
from tests.chaos.world import Lab
from tests.chaos.world import lab as new_lab


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Servers of these tests, even if others were given: they are killed."""
    with killable_servers() as servers, new_lab(servers) as made:
        yield made
