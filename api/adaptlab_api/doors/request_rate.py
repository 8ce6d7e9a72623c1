"""Limits on requests per user, and on wrong tokens per address.

Workers that use the API are counted by their token. Each process counts reads for itself, because
they cost its time. Writes and wrong tokens are counted in Valkey for all processes together. If
Valkey is unreachable, each process counts these for itself too: the limits always apply, and a
failed broker locks nobody out.
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
from adaptlab_api.doors.open_requests import is_of_leases, is_of_links
from adaptlab_api.limits.addresses import subscriber
from adaptlab_api.limits.auditing import SAFE_METHODS
from adaptlab_api.limits.buckets import SECOND
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings

MINUTE = 60 * SECOND
SIGN_IN = "/login"
Presented = Literal["header", "form", "link"]
"""The place of a request's token."""
BACKOFF = ((1, 1), (3, 10), (8, 60))
"""(factor, minutes): wrong tokens allowed in that time, in multiples of the limit per minute."""
WRONG_TOKENS = "This token is not valid, and too many such tokens came from this address"
WRONG_LINKS = "This link opens nothing, and too many such links came from this address"
SIGN_INS = "Too many sign-ins came from this address"


@dataclass(frozen=True, slots=True)
class _Allowed:
    """The rate of one kind of request per user."""

    what: str
    rate: Rate
    shared: bool


class RequestRate:
    """Counts requests by user; comes after the gate, which finds the user.

    Not by token, because any user can create more of them. Visitors by a link are counted by
    address.
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
        """Run one request, or refuse it with `Retry-After`."""
        refusal = await self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Response | None:
        who = _principal(scope)
        if who is None:
            return await self._of_visitor(scope) if is_of_links(scope) else None
        is_lease = is_of_leases(scope)
        allowed = self._reads if scope["method"] in SAFE_METHODS else self._writes
        allowed = self._leases if is_lease else allowed
        buckets = _resources(scope).buckets
        key = f"{allowed.what}:{who.token_id if is_lease else who.user_id}"
        seconds = await buckets.take(key, allowed.rate, shared=allowed.shared)
        if not seconds:
            return None
        most, at_once = allowed.rate.limit, allowed.rate.burst
        side = "token of a worker" if is_lease else "user"
        detail = f"The limit per {side} is {most} {allowed.what} per second, and {at_once} at once"
        return _too_many(detail, seconds)

    async def _of_visitor(self, scope: Scope) -> Response | None:
        rate = self._reads.rate
        key = f"{self._reads.what}:address:{_address(scope)}"
        seconds = await _resources(scope).buckets.take(key, rate, shared=self._reads.shared)
        detail = f"The limit per address is {rate.limit} reads of links per second"
        return _too_many(detail, seconds) if seconds else None


class WrongTokens:
    """Counts wrong tokens by address; comes before the gate.

    Every token is looked up first, so the failures of others at the same address never delay a
    valid token. Beyond the limit, failures get 429 instead of 401.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        most = settings.wrong_tokens_per_minute
        self._rates = tuple(Rate(most * times, minutes * MINUTE) for times, minutes in BACKOFF)
        self._sign_ins = Rate(settings.sign_ins_per_minute, MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request, or refuse it with `Retry-After`."""
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
                if message["status"] == (404 if presented == "link" else 401):
                    refusal = await self._refusal(scope, presented)
                elif sign_ins is not None and message["status"] < 400:
                    # Each opens a session, which lasts twelve hours.
                    await buckets.take(sign_ins, self._sign_ins, shared=True)
                if refusal is not None:
                    await refusal(scope, receive, send)
            if refusal is None:
                await send(message)

        await self._app(scope, receive, counting)

    async def _refusal(self, scope: Scope, presented: Presented) -> Response | None:
        """Count a wrong token; return an answer if there were too many."""
        key = f"wrong:{_address(scope)}"
        seconds = await _resources(scope).buckets.take(key, *self._rates, shared=True)
        what = WRONG_LINKS if presented == "link" else WRONG_TOKENS
        return _too_many(what, seconds) if seconds else None


def _presents(scope: Scope) -> Presented | None:
    """Return the place of a request's token, or None without one.

    Cookies are not counted, because a browser sends an expired one with every request.
    """
    if scope["type"] != "http":
        return None
    if scope["path"] == SIGN_IN and scope["method"] not in SAFE_METHODS:
        return "form"
    if is_of_links(scope):
        return "link"
    return "header" if "authorization" in HTTPConnection(scope).headers else None


def _principal(scope: Scope) -> Principal | None:
    """Return the caller that the gate has found, if any."""
    principal = getattr(HTTPConnection(scope).state, "principal", None)
    return principal if isinstance(principal, Principal) else None


def _address(scope: Scope) -> str:
    """Return the subscriber that the client's address identifies."""
    return subscriber((scope.get("client") or (None, 0))[0])


def _too_many(what: str, seconds: float) -> Response:
    waiting = ceil(seconds)
    headers = {"Retry-After": str(waiting)}
    return problem(TOO_MANY, f"{what}; try again in {waiting} s.", headers=headers)


def _resources(scope: Scope) -> Resources:
    app: FastAPI = scope["app"]
    return resources_of(app)
