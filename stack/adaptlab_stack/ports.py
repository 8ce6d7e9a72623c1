"""TCP ports of the servers."""

import os
import socket
import sys
import weakref

from adaptlab_stack.errors import PortTaken

DEFAULT_API_PORT = 8420
LOOPBACK = "127.0.0.1"
BACKLOG = 2048  # connections that wait to be accepted; uvicorn's default


class HeldPort:
    """A port kept for a server while this object lives.

    The kernel gives it to nobody who asks for any port. A server that is told the number may
    listen there, and again after a restart: a socket that is bound and does not listen bars only
    sockets without SO_REUSEADDR. It would bar the server too elsewhere than on Linux, so there the
    port is only one that was unused.
    """

    def __init__(self, host: str = LOOPBACK) -> None:
        with _bound(host, 0) as probe:
            self.number = port_of(probe)
            if sys.platform == "linux":
                weakref.finalize(self, os.close, probe.detach())


def api_socket(host: str, wanted: int | None) -> socket.socket:
    """Return a socket that listens at the wanted, default or any free port.

    It listens from now on, so that no other server gets the same port. Connections that arrive
    before the API serves, or while it restarts, wait for it.

    Raises:
        PortTaken: the wanted port is in use, or this user may not bind it.
    """
    if wanted is not None:
        try:
            return _listening(host, wanted)
        except OSError as error:
            raise PortTaken(host, wanted, error) from error
    try:
        return _listening(host, DEFAULT_API_PORT)
    except OSError:
        return _listening(host, 0)


def port_of(listening: socket.socket) -> int:
    """Return the port that a socket is bound to."""
    return int(listening.getsockname()[1])


def url_of(host: str, port: int) -> str:
    """Return the local address of a server bound to `host`."""
    reachable = {"0.0.0.0": LOOPBACK, "::": "::1", "": LOOPBACK}.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def _listening(host: str, port: int) -> socket.socket:
    listening = _bound(host, port)
    try:
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def _bound(host: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    # As uvicorn does: without it, a port in TIME_WAIT would seem to be in use.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
