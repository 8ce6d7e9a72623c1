"""What loads without the collector leaves it at work."""

import gc

import pytest

from adaptlab.loading import uncollected


def test_nothing_is_collected_while_something_is_loaded() -> None:
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_cannot_be_loaded_leaves_the_collector_at_work() -> None:
    with pytest.raises(ImportError), uncollected():
        raise ImportError
    assert gc.isenabled()
