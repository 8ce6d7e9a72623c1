"""The server as in production, for tests that need a real socket."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from tests.nursery import Born, Nursery

from adaptlab_services.settings import Settings


@dataclass(frozen=True)
class Running:
    """A server process and somebody who may ask it everything."""

    process: subprocess.Popen[bytes] | Born
    client: httpx.Client
    url: str

    @property
    def resident(self) -> int:
        """Bytes of memory that the process holds."""
        return psutil.Process(self.process.pid).memory_info().rss


@contextmanager
def a_server(
    settings: Settings, token: str, log: Path, before: str = "", nursery: Nursery | None = None
) -> Iterator[Running]:
    """Run the server as in production, on a free port, after `before`.

    It inherits its socket, so that nobody else can take the port meanwhile. One that is born in the
    nursery has loaded its modules before, which takes most of a start.
    """
    environment = os.environ | {
        "ADAPTLAB_DATABASE_URL": settings.database_url,
        "ADAPTLAB_BROKER_URL": settings.broker_url,
        "ADAPTLAB_DATA_DIR": str(settings.data_dir),
    }
    with socket.create_server(("127.0.0.1", 0)) as own:
        url = f"http://127.0.0.1:{own.getsockname()[1]}"
        if nursery is None:
            started: subprocess.Popen[bytes] | Born = _started(own, environment, log, before)
        else:
            started = nursery.bear(["adaptlab_api"], environment, log, before, own)
    with started as process:
        try:
            headers = {"Authorization": f"Bearer {token}"}
            with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
                wait_until_ready(client, process)
                yield Running(process, client, url)
        finally:
            process.kill()


def _started(
    own: socket.socket, environment: Mapping[str, str], log: Path, before: str
) -> subprocess.Popen[bytes]:
    start = f"{before}\nimport runpy\nrunpy.run_module('adaptlab_api', run_name='__main__')"
    command = [sys.executable, "-c", start, "--fd", str(own.fileno())]
    with log.open("wb") as output:
        return subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, pass_fds=[own.fileno()]
        )


def wait_until_ready(client: httpx.Client, process: subprocess.Popen[bytes] | Born) -> None:
    deadline = time.monotonic() + 180  # where a start takes 20 s, others take all processors
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)  # between two tries; the loop ends by what it waits for
    raise AssertionError("the server did not start")
