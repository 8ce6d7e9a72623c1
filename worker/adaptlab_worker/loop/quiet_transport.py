"""A transport for Kombu that waits for messages in long requests.

Kombu's own sends a request every second, which was half of the work of the worker's loop during a
training, and woke the broker as often.
"""

from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis
from redis.exceptions import RedisError

NAME = "valkey"  # for Kombu, and in the lines of its log
LISTEN_SECONDS = 10
"""Seconds that one request waits for a message; messages still arrive at once."""


class QuietChannel(redis.Channel):
    """A channel that closes without waiting for the answer to its request."""

    def close(self) -> None:
        """Close; a message that has arrived is put back, as by any channel.

        A message that arrives at this moment is lost; polling finds its job.
        """
        listening: Any = self._in_poll
        if listening and not _has_answer(listening):
            self._in_poll = None  # else Kombu reads the answer before it closes
        super().close()


class QuietTransport(redis.Transport):
    """Kombu's transport for Valkey and Redis, with long requests."""

    Channel = QuietChannel
    brpop_timeout = LISTEN_SECONDS


def known_to_kombu() -> str:
    """Register the transport in Kombu and return its name."""
    TRANSPORT_ALIASES[NAME] = f"{__name__}:{QuietTransport.__name__}"
    return NAME


def _has_answer(connection: Any) -> bool:
    """Return True if a redis-py connection has data to read."""
    if getattr(connection, "_sock", None) is None:  # else it would connect
        return False
    try:
        return bool(connection.can_read(0))
    except (RedisError, OSError):
        return False
