"""Where requests come from, as far as that tells one subscriber from another."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

UNKNOWN = "unknown"
MOST_KNOWN = 10_000


@lru_cache(MOST_KNOWN)
def subscriber(host: str | None) -> str:
    """A client's address; of IPv6 the network of 64 bits that one subscriber has."""
    try:
        address = ip_address(host or "")
    except ValueError:  # a socket of this machine, or a proxy that passes on anything
        return UNKNOWN
    return address.exploded[:19] if isinstance(address, IPv6Address) else str(address)
