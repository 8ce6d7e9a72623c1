"""Real workers, as the tests of the worker start them."""

from tests.worker.conftest import control, processes, watched, worker_nursery

__all__ = ["control", "processes", "watched", "worker_nursery"]
