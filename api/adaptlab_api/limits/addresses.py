"""Client addresses, reduced to what identifies one subscriber."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

UNKNOWN = "unknown"
MOST_KNOWN = 10_000


@lru_cache(MOST_KNOWN)
def subscriber(host: str | None) -> str:
    """Return a client's IPv4 address, or the /64 network of its IPv6 address."""
    try:
        address = ip_address(host or "")
    except ValueError:  # a Unix socket, or a proxy that forwards anything
        return UNKNOWN
    return address.exploded[:19] if isinstance(address, IPv6Address) else str(address)
