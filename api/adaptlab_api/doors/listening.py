"""Where the server may listen: tokens never cross a network in the clear."""

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from adaptlab.errors import AdaptlabError


class UnsafeAddress(AdaptlabError):
    """An address that others reach, without anything that encrypts what they send there."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"Others can reach {host!r}, and their tokens would travel in the clear. Give "
            "--certificate and --key, or --behind-proxy if a proxy in front does TLS, or listen "
            "at 127.0.0.1."
        )
        self.host = host


@dataclass(frozen=True, slots=True)
class Listening:
    """Where to listen and how that is protected.

    `certificate` and `key` are PEM files for TLS. `behind_proxy` says that a proxy does TLS, and
    that its word is taken for where requests come from.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False

    def check(self) -> None:
        """Raise `UnsafeAddress` for an address beyond this machine without TLS."""
        has_tls = self.certificate is not None and self.key is not None
        if not (has_tls or self.behind_proxy or is_loopback(self.host)):
            raise UnsafeAddress(self.host)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address; a name other than localhost may be any."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
