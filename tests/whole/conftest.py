"""One running stack for all tests here, and its command line."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.pages.browsers import browser
from tests.whole import canaries

from adaptlab_client import Client
from adaptlab_stack.data_directory import DataDirectory
from adaptlab_stack.stack import Stack

__all__ = ["browser"]  # found here by pytest

PATIENCE = 300
"""Seconds until a job, a command or a server is given up, on however loaded a machine."""


@contextmanager
def a_folder(what: str) -> Generator[Path]:
    """A folder for a stack's data, removed even if a killed process writes."""
    prefix = f"adaptlab {what} "
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """A stack in a folder with a space, with canaries as its secrets."""
    with a_folder("whole") as folder:
        (folder / "models").mkdir()
        credentials = DataDirectory.open(folder / "data").credentials_file
        credentials.write_text(json.dumps(canaries.SERVERS))
        credentials.chmod(0o600)
        short = {
            "ADAPTLAB_LEASE_SECONDS": "10",
            "ADAPTLAB_HEARTBEAT_SECONDS": "1",
            "ADAPTLAB_REAP_SECONDS": "1",
            "ADAPTLAB_REAPER_ARM_SECONDS": "2",
            "ADAPTLAB_SAVE_SECONDS": "0.5",
            "ADAPTLAB_MODEL_ROOTS": f"models={folder}/models",
            "ADAPTLAB_DATABASE_URL": None,
            "ADAPTLAB_BROKER_URL": None,
            "ADAPTLAB_COMPILE": None,
            **canaries.ENVIRONMENT,
        }
        with Stack.start(folder / "data", environment=short) as running:
            yield running


@pytest.fixture(scope="session")
def model_root(stack: Stack) -> Path:
    """The folder that the stack knows as the model root `models`."""
    return stack.data_dir.parent / "models"


@pytest.fixture(scope="session")
def client(stack: Stack) -> Iterator[Client]:
    with Client(stack.url, stack.token) as client:
        yield client


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"not true after {PATIENCE} s"
            time.sleep(0.05)

    return wait


def command(stack: Stack, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """`adaptlab` as a user runs it, who knows only the data directory."""
    environment = {**os.environ, "ADAPTLAB_DATA_DIR": str(stack.data_dir)}
    for name in ("ADAPTLAB_URL", "ADAPTLAB_TOKEN"):
        environment.pop(name, None)
    adaptlab = str(Path(sys.executable).with_name("adaptlab"))
    return subprocess.run(
        [adaptlab, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=PATIENCE,
    )
