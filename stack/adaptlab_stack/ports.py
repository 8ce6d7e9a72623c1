"""Which TCP ports to use."""

import socket

from adaptlab_stack.errors import PortTaken

DEFAULT_API_PORT = 8420
LOOPBACK = "127.0.0.1"


def free_port(host: str = LOOPBACK) -> int:
    """A port that nothing listens on at this moment."""
    return _bind(host, 0)


def api_port(host: str, wanted: int | None) -> int:
    """The port to serve at: the wanted one, else the default one, else any free one.

    Raises:
        PortTaken: the wanted port is in use, or this user may not bind it.
    """
    if wanted is not None:
        try:
            return _bind(host, wanted)
        except OSError as error:
            raise PortTaken(host, wanted, error) from error
    try:
        return _bind(host, DEFAULT_API_PORT)
    except OSError:
        return free_port(host)


def url_of(host: str, port: int) -> str:
    """The address at which a server bound to `host` answers on this machine."""
    reachable = {"0.0.0.0": LOOPBACK, "::": "::1", "": LOOPBACK}.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def _bind(host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As uvicorn does: without it a port in TIME_WAIT would look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        return int(probe.getsockname()[1])
