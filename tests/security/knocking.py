"""A confined module that tries to reach this machine by the network."""

import json
import socket
import sys

from tests.security.confined_runs import NO_PORT

ADDRESSES = {"AF_INET": "127.0.0.1", "AF_INET6": "::1"}


def knock(family: str, address: str) -> str:
    """The name of the error that it ends in."""
    try:
        with socket.socket(getattr(socket, family)) as attempt:
            attempt.connect((address, NO_PORT))
    except OSError as error:
        return type(error).__name__
    return "done"


if __name__ == "__main__":
    sys.stdout.write(json.dumps({name: knock(name, where) for name, where in ADDRESSES.items()}))
