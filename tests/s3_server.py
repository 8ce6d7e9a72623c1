"""A server that speaks the S3 protocol: moto's, as a process of its own.

It keeps everything in memory and checks no signature, so it shows that we speak the protocol, not
how a store under load behaves.
"""

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager

from adaptlab_db.stores.s3 import S3Address
from adaptlab_stack.ports import LOOPBACK, HeldPort

BUCKET = "laboratory"
START_SECONDS = 60


@contextmanager
def running_s3_server() -> Generator[S3Address]:
    """Run the server in the block; the address of an empty bucket on it."""
    held = HeldPort()
    endpoint = f"http://{LOOPBACK}:{held.number}"
    argv = [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(held.number)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _make_bucket(server, f"{endpoint}/{BUCKET}")
            yield S3Address(
                bucket=BUCKET,
                prefix="adaptlab",
                endpoint=endpoint,
                access_key_id="tester",
                secret_access_key="not a secret",
            )
        finally:
            server.kill()


def _make_bucket(server: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            # The first request loads what it needs, which takes its time.
            asked = urllib.request.Request(address, method="PUT")
            with urllib.request.urlopen(asked, timeout=START_SECONDS):
                return
        except (urllib.error.URLError, ConnectionError):
            assert server.poll() is None, f"moto ended with {server.returncode}"
            assert time.monotonic() < deadline, f"moto did not answer in {START_SECONDS} s"
            time.sleep(0.05)
