"""The addresses to which a server sends webhooks.

A user chooses the address, and the worker that sends may reach machines that the user cannot. So
only public addresses are allowed, and others only in networks that the operator names. What counts
is the address that is connected to, after the name was resolved.
"""

import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    # The process that reads from a hub needs neither settings nor a database.
    from adaptlab_services.settings import Settings

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

LONGEST_URL = 2000
SCHEMES = {"http": 80, "https": 443}
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: the last 32 bits are an IPv4 address
_ASSIGNED = IPv6Network("2000::/3")
"""All public IPv6 addresses; the rest is site-local, discarded, local NAT64, or for nothing yet."""
_NOT_PUBLIC = tuple(
    map(
        ip_network,
        (
            "168.63.129.16/32",  # the metadata of a cloud, in the middle of public addresses
            "192.88.99.0/24",  # relays of 6to4 (RFC 7526)
            "3fff::/20",  # documentation (RFC 9637)
        ),
    )
)
"""What `ipaddress` calls global and is not."""
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)  # RFC 5214: then the last 32 bits are an IPv4 address


class AddressRefused(ValueError):
    """An address to which no webhook is sent."""


@dataclass(frozen=True, slots=True)
class AddressRules:
    """Rules for the addresses of webhooks.

    Attributes:
        networks: networks that are allowed in addition to public addresses.
        allows_http: True if a message can be sent without TLS.
    """

    networks: tuple[Network, ...] = ()
    allows_http: bool = False

    @classmethod
    def of(cls, settings: "Settings") -> "AddressRules":
        """Return the rules of a server."""
        return cls(settings.webhook_networks, settings.webhook_http == "allowed")

    def check_url(self, url: str) -> None:
        """Raise `AddressRefused` for a URL that can never be sent to.

        A name is not resolved, because it can change.
        """
        scheme, host = _parts(url)
        settings: list[str] = []
        if scheme == "http" and not self.allows_http:
            settings.append("ADAPTLAB_WEBHOOK_HTTP=allowed")
        refused = [*dict.fromkeys(one for one in _numeric(host) if not self.allows(one))]
        if settings and not refused:
            raise AddressRefused(
                "The address starts with http. This server sends to https addresses only, unless "
                f"an operator sets {settings[0]}."
            )
        if refused and settings:
            networks = ",".join(str(ip_network(str(address))) for address in refused)
            raise AddressRefused(
                f"{refused[0]} is not a public address, and the address starts with http. An "
                f"operator can allow both with {settings[0]} and "
                f"ADAPTLAB_WEBHOOK_NETWORKS={networks}."
            )
        for address in refused:
            self.check(address)

    def check(self, address: Address) -> None:
        """Raise `AddressRefused` for an IP address that is not allowed."""
        if not self.allows(address):
            raise AddressRefused(
                f"{address} is not a public address. An operator can allow its network with "
                "ADAPTLAB_WEBHOOK_NETWORKS."
            )

    def check_name(self, name: str, addresses: Iterable[Address]) -> tuple[Address, ...]:
        """Return the addresses of a name that are allowed.

        Raises `AddressRefused` if there is none, without the addresses: who chose the name may be
        unable to look it up, as the names of an internal network.
        """
        allowed = tuple(address for address in addresses if self.allows(address))
        if not allowed:
            raise AddressRefused(
                f"The name {name!r} leads to what is not a public address. An operator can allow "
                "its network with ADAPTLAB_WEBHOOK_NETWORKS."
            )
        return allowed

    def allows(self, address: Address) -> bool:
        """Return True for public addresses and those in allowed networks.

        An IPv6 address that stands for an IPv4 address is judged by that one too.
        """
        return all(self._allows(one) for one in (_plain(address), *_embedded(address)))

    def _allows(self, address: Address) -> bool:
        if any(address in network for network in self.networks):
            return True
        if isinstance(address, IPv6Address) and address not in _ASSIGNED:
            return False
        if any(address in network for network in _NOT_PUBLIC):
            return False
        return address.is_global and not address.is_multicast and not address.is_reserved


def _parts(url: str) -> tuple[str, str]:
    """Return the scheme and the host of a URL; raise `AddressRefused`."""
    if len(url) > LONGEST_URL or not url.isascii() or any(c <= " " or c == "\x7f" for c in url):
        raise AddressRefused(
            f"The address is not a URL of at most {LONGEST_URL:,} printable ASCII characters."
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise AddressRefused(f"The address is not a URL: {error}.") from error
    if parts.scheme not in SCHEMES or not host or port == 0:
        raise AddressRefused("The address is not of the form https://host/path.")
    if parts.username is not None or parts.password is not None or parts.fragment or "\\" in url:
        raise AddressRefused("The address has a user, a password, a fragment or a backslash.")
    return parts.scheme, host


def _numeric(host: str) -> Iterator[Address]:
    """Yield the addresses that a host means without a look-up.

    This includes decimal, octal and hexadecimal forms such as 2130706433, 0177.1 and 0x7f000001.
    """
    try:
        found = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return
    for *_, address in found:
        yield ip_address(address[0])


def _plain(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address is another form of, or it."""
    if not isinstance(address, IPv6Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address


def _embedded(address: Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses to which tunnels may lead from an address."""
    if not isinstance(address, IPv6Address):
        return
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP:
        yield IPv4Address(int(address) & 0xFFFF_FFFF)
