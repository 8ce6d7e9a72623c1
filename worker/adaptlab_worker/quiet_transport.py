"""How a worker listens to its broker: by a question that waits for long.

Kombu's own way asks anew every second, which was half of what the worker's loop did beside a
training, and woke the broker as often.
"""

from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis
from redis.exceptions import RedisError

NAME = "valkey"  # for Kombu, and in the lines of its log
LISTEN_SECONDS = 10
"""For which one question waits for a message; each comes at once all the same."""


class QuietChannel(redis.Channel):
    """A channel that is closed without waiting until its question is answered."""

    def close(self) -> None:
        """Close; a message that has come already is put back, as by any channel.

        One that comes at this very moment is lost; whoever looks for jobs finds what it was about.
        """
        listening: Any = self._in_poll
        if listening and not _has_answer(listening):
            self._in_poll = None  # to be read before the end, says Kombu
        super().close()


class QuietTransport(redis.Transport):
    """Kombu's transport for Valkey and Redis, which asks rarely."""

    Channel = QuietChannel
    brpop_timeout = LISTEN_SECONDS


def known_to_kombu() -> str:
    """The name by which Kombu finds the transport from now on."""
    TRANSPORT_ALIASES[NAME] = f"{__name__}:{QuietTransport.__name__}"
    return NAME


def _has_answer(connection: Any) -> bool:
    """Whether a connection of redis-py has something to read; one that is broken has not."""
    if getattr(connection, "_sock", None) is None:  # else it would connect
        return False
    try:
        return bool(connection.can_read(0))
    except (RedisError, OSError):
        return False
