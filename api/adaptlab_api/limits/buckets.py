"""Token buckets, which say whether somebody may do a thing once more, and when else.

Shared ones lie in Valkey and count for all processes. While it is away, and for those that are
not shared, each process counts for itself. `limits`, slowapi (which builds on it) and
pyrate-limiter were weighed: the first two know windows, no rate with a burst beside it, and
`limits` does not allow the redis client of this release.
"""

import logging
import time
from asyncio import Lock
from collections import OrderedDict
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar, cast
from weakref import WeakValueDictionary

from pyrate_limiter import Decision, Rate, RedisStateStore, TokenBucket
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

T = TypeVar("T")
State = tuple[float, ...]

SECOND = 1000
"""Rates count in milliseconds."""
ANSWER_SECONDS = 0.2
AWAY_SECONDS = 5.0
"""For which Valkey is not asked again after it did not answer."""
MOST_AHEAD = 10
PART_AHEAD = 10
"""So many, and no more than such a part of a bucket, are taken from it by one question to Valkey:
what one process has in hand, the others do not find in the bucket."""
MOST_KEPT = 10_000
"""Buckets in one process; of more, those go that have not been used for longest."""

log = logging.getLogger(__name__)


class Buckets:
    """All buckets of one application, by key; the rates come with every question."""

    def __init__(self, broker_url: str) -> None:
        self._valkey = Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - its options have no types
            broker_url,
            socket_timeout=ANSWER_SECONDS,
            socket_connect_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._algorithm = TokenBucket()
        self._kept: OrderedDict[str, State] = OrderedDict()
        self._in_hand: OrderedDict[str, _InHand] = OrderedDict()
        self._turns: WeakValueDictionary[str, Lock] = WeakValueDictionary()
        self._away_until = 0.0

    async def close(self) -> None:
        """Hang up."""
        await self._valkey.aclose()

    async def take(self, key: str, *rates: Rate, shared: bool) -> float:
        """Take one from a bucket: 0, or if there is none in it, the seconds until there is."""
        if shared and not self._is_away:
            check = self._stored(key).check(self._algorithm, list(rates), _now(), 1)
            decided = await self._answered(cast("Awaitable[Decision]", check))
            if decided is not None:
                return _wait(decided)
        state, decision = self._step(self._kept.get(key), *rates)
        _keep(self._kept, key, state)
        return _wait(decision)

    async def take_ahead(self, key: str, rate: Rate) -> float:
        """`take` from a shared bucket, a few at a time: for what comes often, Valkey is far away.

        What is left in hand is given up in the time in which a whole bucket fills, so it costs
        somebody no more than that part of their rate.
        """
        if self._hand_out(key):
            return 0.0
        turn = self._turns.setdefault(key, Lock())
        async with turn:  # one asks, and those who came meanwhile are given of what it brings
            if self._hand_out(key):
                return 0.0
            many = min(MOST_AHEAD, rate.burst // PART_AHEAD)
            if many > 1 and not self._is_away:
                check = self._stored(key).check(self._algorithm, [rate], now := _now(), many)
                decided = await self._answered(cast("Awaitable[Decision]", check))
                if decided is not None and decided.allowed:
                    until = now + rate.burst * rate.interval / rate.limit
                    _keep(self._in_hand, key, _InHand(many - 1, until))
                    return 0.0
            return await self.take(key, rate, shared=True)

    def _hand_out(self, key: str) -> bool:
        """Give out one of those in hand, if there is one."""
        found = self._in_hand.get(key)
        if found is None or not found.left or found.until <= _now():
            return False
        found.left -= 1
        return True

    async def look(self, key: str, *rates: Rate, shared: bool) -> float:
        """What `take` would answer; nothing is taken."""
        state = self._kept.get(key)
        if shared and not self._is_away:
            read = self._stored(key).read(self._algorithm, list(rates))
            found = await self._answered(cast("Awaitable[State]", read))
            state = state if found is None else found
        return _wait(self._step(state, *rates)[1])

    def _step(self, state: State | None, *rates: Rate) -> tuple[State, Decision]:
        known = state or self._algorithm.initial(list(rates))
        return self._algorithm.step(list(rates), known, _now(), 1)

    def _stored(self, key: str) -> RedisStateStore:
        return RedisStateStore(self._valkey, f"adaptlab:bucket:{key}")

    @property
    def _is_away(self) -> bool:
        return time.monotonic() < self._away_until

    async def _answered(self, question: Awaitable[T]) -> T | None:
        """Valkey's answer; None if there is none."""
        try:
            return await question
        except (RedisError, OSError) as error:
            self._away_until = time.monotonic() + AWAY_SECONDS
            log.warning("Requests are counted here alone, Valkey is away: %s", type(error).__name__)
            return None


@dataclass(slots=True)
class _InHand:
    """What was taken ahead from a bucket, and until when that may be given out."""

    left: int
    until: float


def _keep(kept: OrderedDict[str, T], key: str, value: T) -> None:
    """Put in what is used now; of too many, what has not been used for longest goes."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > MOST_KEPT:
        kept.popitem(last=False)


def _now() -> int:
    return round(time.time() * SECOND)


def _wait(decision: Decision) -> float:
    # Rates whose burst is below one are refused when they are made, so a wait is always known.
    return 0.0 if decision.allowed else (decision.retry_after_ms or SECOND) / SECOND
