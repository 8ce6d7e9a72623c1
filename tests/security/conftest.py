"""Real workers and the application, as their own tests start them."""

from tests.api.conftest import anonymous, api, token
from tests.worker.conftest import control, group, processes, watched, worker_nursery

__all__ = [
    "anonymous",
    "api",
    "control",
    "group",
    "processes",
    "token",
    "watched",
    "worker_nursery",
]
