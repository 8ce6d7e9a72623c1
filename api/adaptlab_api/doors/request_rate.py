"""How often somebody may ask: so many requests a second per person, so few wrong tokens a minute.

Workers that come by the API are counted apart, by their token. Reads are counted by each process,
as what they cost is its time. Writes and wrong tokens are counted for all processes together, in
Valkey. While that is away each process counts for itself, and that for signing in as well: a limit
holds at any time, and nobody is kept from looking at a server whose broker has failed.
"""

from dataclasses import dataclass
from math import ceil
from typing import Literal

from fastapi import FastAPI
from pyrate_limiter import Rate
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adaptlab_api.answers.problems import TOO_MANY, problem
from adaptlab_api.answers.state import Resources, resources_of
from adaptlab_api.doors.open_requests import is_of_leases
from adaptlab_api.limits.addresses import subscriber
from adaptlab_api.limits.auditing import SAFE_METHODS
from adaptlab_api.limits.buckets import SECOND
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings

MINUTE = 60 * SECOND
SIGN_IN = "/login"
BACKOFF = ((1, 1), (3, 10), (8, 60))
"""So many times as many wrong tokens in so many minutes: who goes on waits longer and longer."""
WRONG_TOKENS = "This token opens nothing, and too many such came from this address"
SIGN_INS = "Too many sign-ins came from this address"


@dataclass(frozen=True, slots=True)
class _Allowed:
    """What one person may do of one kind."""

    what: str
    rate: Rate
    shared: bool


class RequestRate:
    """Counts everybody's requests; stands behind the gate, which says whose they are.

    By the person and not by the token, of which anybody can make more.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        reads = Rate(settings.read_rate, SECOND, burst=settings.read_burst)
        writes = Rate(settings.write_rate, SECOND, burst=settings.write_burst)
        self._reads = _Allowed("reads", reads, shared=False)
        self._writes = _Allowed("writes", writes, shared=True)
        leases = Rate(settings.lease_rate, SECOND, burst=settings.lease_burst)
        self._leases = _Allowed("requests under leases", leases, shared=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request, or ask its sender to wait."""
        refusal = await self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Response | None:
        who = _principal(scope)
        if who is None:
            return None
        is_lease = is_of_leases(scope)
        allowed = self._reads if scope["method"] in SAFE_METHODS else self._writes
        allowed = self._leases if is_lease else allowed
        buckets = _resources(scope).buckets
        key = f"{allowed.what}:{who.token_id if is_lease else who.user_id}"
        if allowed.shared:
            seconds = await buckets.take_ahead(key, allowed.rate)
        else:
            seconds = await buckets.take(key, allowed.rate, shared=False)
        if not seconds:
            return None
        most, at_once = allowed.rate.limit, allowed.rate.burst
        side = "A worker's token" if is_lease else "A person"
        detail = f"{side} has {most} {allowed.what} a second here, and {at_once} at once"
        return _too_many(detail, seconds)


class WrongTokens:
    """Counts per address the tokens that open nothing; stands in front of the gate.

    Every token is looked up first, so a valid one is never kept waiting by others' failures behind
    the same address. Beyond the limit, failures are answered with 429 instead of 401.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        most = settings.wrong_tokens_per_minute
        self._rates = tuple(Rate(most * times, minutes * MINUTE) for times, minutes in BACKOFF)
        self._sign_ins = Rate(settings.sign_ins_per_minute, MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request, or answer that its sender has to wait."""
        presented = _presents(scope)
        if presented is None:
            await self._app(scope, receive, send)
            return
        buckets = _resources(scope).buckets
        sign_ins = f"sign-in:{_address(scope)}" if presented == "form" else None
        if sign_ins is not None:
            seconds = await buckets.look(sign_ins, self._sign_ins, shared=True)
            if seconds:
                await _too_many(SIGN_INS, seconds)(scope, receive, send)
                return
        refusal: Response | None = None

        async def counting(message: Message) -> None:
            nonlocal refusal
            if message["type"] == "http.response.start":
                if message["status"] == 401:
                    refusal = await self._refusal(scope)
                elif sign_ins is not None and message["status"] < 400:
                    # Each opens a session, which is kept for twelve hours.
                    await buckets.take(sign_ins, self._sign_ins, shared=True)
                if refusal is not None:
                    await refusal(scope, receive, send)
            if refusal is None:
                await send(message)

        await self._app(scope, receive, counting)

    async def _refusal(self, scope: Scope) -> Response | None:
        """Count a token that opened nothing; an answer if there were too many."""
        key = f"wrong:{_address(scope)}"
        seconds = await _resources(scope).buckets.take(key, *self._rates, shared=True)
        return _too_many(WRONG_TOKENS, seconds) if seconds else None


def _presents(scope: Scope) -> Literal["header", "form"] | None:
    """Where a request has its token; None if it has none.

    Cookies are not counted: one that has expired comes with everything that a browser then asks
    for.
    """
    if scope["type"] != "http":
        return None
    if scope["path"] == SIGN_IN and scope["method"] not in SAFE_METHODS:
        return "form"
    return "header" if "authorization" in HTTPConnection(scope).headers else None


def _principal(scope: Scope) -> Principal | None:
    """Who is asking, once the gate has found out."""
    found = getattr(HTTPConnection(scope).state, "principal", None)
    return found if isinstance(found, Principal) else None


def _address(scope: Scope) -> str:
    """The client's address; of IPv6 the network that one subscriber has."""
    return subscriber((scope.get("client") or (None, 0))[0])


def _too_many(what: str, seconds: float) -> Response:
    waiting = ceil(seconds)
    headers = {"Retry-After": str(waiting)}
    return problem(TOO_MANY, f"{what}; try again in {waiting} s.", headers=headers)


def _resources(scope: Scope) -> Resources:
    app: FastAPI = scope["app"]
    return resources_of(app)
