"""Requests to receivers of webhooks.

They connect only to addresses that were checked after the name was resolved, so that no name can
lead elsewhere. Redirects are not followed, and no answer is read beyond its status.
"""

import asyncio
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from socket import SOCK_STREAM
from typing import cast

import httpcore

from adaptlab_services.limits.addresses import AddressRefused, AddressRules

TOTAL_SECONDS = 10.0
"""Longest time from the look-up of the name to the status."""
CONNECT_SECONDS = 5.0
MOST_ADDRESSES = 4
"""Addresses of one name that are tried."""
LONGEST_ERROR = 300
FAILURES = (
    *(httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError),
    *(OSError, ValueError),  # also of TLS, of time-outs and of refused addresses
)
"""Errors of a request that got no answer."""
_ADDRESS = re.compile(r"\(?'[0-9A-Fa-f.:%]+', \d+[^)]*\)?")


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """A message as it is sent."""

    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """The outcome of one attempt: the HTTP status, the error, or both."""

    status: int | None
    error: str | None


class NameUnknown(httpcore.ConnectError):
    """A name that cannot be resolved."""


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Connections to allowed addresses only."""

    def __init__(self, rules: AddressRules) -> None:
        self._rules = rules
        # Declared twice, because anyio is optional there; here it comes with httpx.
        self._plain = cast("httpcore.AsyncNetworkBackend", httpcore.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address of `host` that is allowed and answers.

        Raises `AddressRefused` if no address is allowed.
        """
        addresses = await self._allowed(host, port)
        for number, address in enumerate(addresses, start=1):
            try:
                return await self._plain.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if number == len(addresses):
                    raise
        raise AssertionError("unreachable: there is an address")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def _allowed(self, host: str, port: int) -> tuple[str, ...]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=SOCK_STREAM)
        except OSError as error:
            raise NameUnknown(f"The name {host!r} cannot be resolved.") from error
        addresses = dict.fromkeys(ip_address(place[0]) for *_, place in found)
        return tuple(map(str, self._rules.check_name(host, addresses)))[:MOST_ADDRESSES]


async def send(request: WebhookRequest, rules: AddressRules) -> DeliveryOutcome:
    """Send a message once; return what came of it."""
    try:
        rules.check_url(request.url)
        async with asyncio.timeout(TOTAL_SECONDS):
            status = await _status(request, rules)
    except FAILURES as error:
        return DeliveryOutcome(None, reason(error, TOTAL_SECONDS))
    if 200 <= status < 300:
        return DeliveryOutcome(status, None)
    more = " Redirects are not followed." if 300 <= status < 400 else ""
    return DeliveryOutcome(status, f"The receiver answered {status}.{more}")


async def _status(request: WebhookRequest, rules: AddressRules) -> int:
    seconds = dict.fromkeys(("read", "write", "pool"), TOTAL_SECONDS)
    pool = httpcore.AsyncConnectionPool(
        ssl_context=ssl.create_default_context(),
        max_keepalive_connections=0,
        network_backend=CheckedNetwork(rules),
    )
    async with (
        pool,
        pool.stream(
            "POST",
            request.url,
            headers=list(request.headers.items()),
            content=request.body,
            extensions={"timeout": seconds | {"connect": CONNECT_SECONDS}},
        ) as answer,
    ):
        return answer.status


def reason(error: Exception, seconds: float) -> str:
    """Return in words why a request got no answer within its seconds."""
    if isinstance(error, TimeoutError):
        return f"The receiver did not answer within {seconds:g} s."
    if isinstance(error, AddressRefused | NameUnknown):
        return str(error)
    # Texts of the system name the address, which the name of an internal host does not show.
    text = _ADDRESS.sub("(…)", str(error)) or "without a reason"
    return f"The request failed ({type(error).__name__}): {text}"[:LONGEST_ERROR]
