"""Token buckets, which decide when a request is within its rate.

Shared buckets are stored in Valkey and count for all processes. Other buckets, and all of them
while Valkey is unreachable, count per process. `limits`, slowapi (which builds on it) and
pyrate-limiter were considered: the first two have windows and no rate with a burst, and `limits`
does not support the redis client of this release.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable
from typing import TypeVar, cast

from pyrate_limiter import Decision, Rate, RedisStateStore, TokenBucket
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

T = TypeVar("T")
State = tuple[float, ...]

SECOND = 1000
"""In milliseconds, the unit of rates."""
ANSWER_SECONDS = 0.2
AWAY_SECONDS = 5.0
"""Without requests to Valkey after it did not answer."""
MOST_KEPT = 10_000
"""Buckets in one process; beyond this, the least recently used are dropped."""

log = logging.getLogger(__name__)


class Buckets:
    """The buckets of one application, by key; every call passes the rates."""

    def __init__(self, broker_url: str) -> None:
        self._valkey = Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - its options have no types
            broker_url,
            socket_timeout=ANSWER_SECONDS,
            socket_connect_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._algorithm = TokenBucket()
        self._kept: OrderedDict[str, State] = OrderedDict()
        self._away_until = 0.0

    async def close(self) -> None:
        """Close the connection to Valkey."""
        await self._valkey.aclose()

    async def take(self, key: str, *rates: Rate, shared: bool) -> float:
        """Take a token; return 0, or the seconds until there is one."""
        if shared and not self._is_away:
            check = self._stored(key).check(self._algorithm, list(rates), _now(), 1)
            decided = await self._answered(cast("Awaitable[Decision]", check))
            if decided is not None:
                return _wait(decided)
        state, decision = self._step(self._kept.get(key), *rates)
        self._keep(key, state)
        return _wait(decision)

    async def look(self, key: str, *rates: Rate, shared: bool) -> float:
        """Return what `take` would, without taking a token."""
        state = self._kept.get(key)
        if shared and not self._is_away:
            read = self._stored(key).read(self._algorithm, list(rates))
            stored = await self._answered(cast("Awaitable[State]", read))
            state = state if stored is None else stored
        return _wait(self._step(state, *rates)[1])

    def _keep(self, key: str, state: State) -> None:
        """Store a state; drop the least recently used if there are too many."""
        self._kept[key] = state
        self._kept.move_to_end(key)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

    def _step(self, state: State | None, *rates: Rate) -> tuple[State, Decision]:
        state = state or self._algorithm.initial(list(rates))
        return self._algorithm.step(list(rates), state, _now(), 1)

    def _stored(self, key: str) -> RedisStateStore:
        return RedisStateStore(self._valkey, f"adaptlab:bucket:{key}")

    @property
    def _is_away(self) -> bool:
        return time.monotonic() < self._away_until

    async def _answered(self, question: Awaitable[T]) -> T | None:
        """Return Valkey's answer, or None if there is none."""
        try:
            return await question
        except (RedisError, OSError) as error:
            self._away_until = time.monotonic() + AWAY_SECONDS
            log.warning(
                "Valkey is unreachable, so requests are counted per process: %s",
                type(error).__name__,
            )
            return None


def _now() -> int:
    return round(time.time() * SECOND)


def _wait(decision: Decision) -> float:
    # The settings refuse a burst below one, so there is always a wait.
    return 0.0 if decision.allowed else (decision.retry_after_ms or SECOND) / SECOND
