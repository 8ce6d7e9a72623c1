"""A process that makes one attempt at a fetch, to be killed.

Run as `python -m tests.fetching`, with the settings in the environment.
"""

import sys

from adaptlab_services.hub.fetcher import Fetcher
from adaptlab_services.server.stores import open_sessions
from adaptlab_services.settings import Settings


def main() -> int:
    """Fetch what is due."""
    settings = Settings()  # pyright: ignore[reportCallIssue] - from the environment
    attempt = Fetcher(open_sessions(settings), settings, lambda _: None).claim()
    assert attempt is not None
    attempt.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
