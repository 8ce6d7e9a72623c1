"""Which TCP ports to use."""

import socket

from adaptlab_stack.errors import PortTaken

DEFAULT_API_PORT = 8420
LOOPBACK = "127.0.0.1"
BACKLOG = 2048  # connections that wait to be accepted; as uvicorn's


def free_port(host: str = LOOPBACK) -> int:
    """A port that nothing listens on at this moment."""
    with _bound(host, 0) as probe:
        return port_of(probe)


def api_socket(host: str, wanted: int | None) -> socket.socket:
    """A socket that listens at the wanted port, else at the default one, else at any free one.

    It listens from now on, so that no other server that starts meanwhile gets the same port, and
    what connects before the API serves, or while it is started again, waits for it.

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
    """The port that a socket is bound to."""
    return int(listening.getsockname()[1])


def url_of(host: str, port: int) -> str:
    """The address at which a server bound to `host` answers on this machine."""
    reachable = {"0.0.0.0": LOOPBACK, "::": "::1", "": LOOPBACK}.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def _listening(host: str, port: int) -> socket.socket:
    made = _bound(host, port)
    try:
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def _bound(host: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    # As uvicorn does: without it a port in TIME_WAIT would look taken.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    return made
