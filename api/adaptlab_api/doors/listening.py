"""Addresses to listen at; tokens never cross a network unencrypted."""

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from adaptlab.errors import AdaptlabError


class UnsafeAddress(AdaptlabError):
    """An address that other machines can reach without encryption."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"Others can reach {host!r}, and their tokens would travel in the clear. Give "
            "--certificate and --key, or --behind-proxy if a proxy in front does TLS, or listen "
            "at 127.0.0.1."
        )
        self.host = host


@dataclass(frozen=True, slots=True)
class Listening:
    """An address to listen at, and its protection.

    `certificate` and `key` are PEM files for TLS. With `behind_proxy`, a proxy does TLS, and its
    headers for the client's address are trusted.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False

    def check(self) -> None:
        """Raise `UnsafeAddress` if other machines can connect without TLS."""
        has_tls = self.certificate is not None and self.key is not None
        if not (has_tls or self.behind_proxy or is_loopback(self.host)):
            raise UnsafeAddress(self.host)


def is_loopback(host: str) -> bool:
    """Return True for loopback addresses and `localhost`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
