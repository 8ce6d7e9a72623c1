import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import psutil
import pytest

from adaptlab_stack import stack
from adaptlab_stack.data_directory import DataDirectory
from adaptlab_stack.postgres import EmbeddedPostgres

STAND_IN_UP = (sys.executable, str(Path(__file__).with_name("stand_in.py")), "up")


@pytest.fixture(scope="session")
def stand_in_up() -> tuple[str, ...]:
    """The command for a stack with stand-ins above the servers."""
    return STAND_IN_UP


@pytest.fixture(scope="module", autouse=True)
def time_to_stop() -> Iterator[None]:
    """Time to stop, since a killed supervisor leaves things behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack, "STOP_SECONDS", 60)
        yield


@pytest.fixture(scope="session")
def initialised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a Postgres cluster that no server has run on."""
    data = tmp_path_factory.mktemp("initialised") / "data"
    EmbeddedPostgres.prepare(DataDirectory.open(data), durable=False)
    return data


@pytest.fixture
def initialised_at(initialised: Path) -> Callable[[Path], Path]:
    """A copy of that directory, for starts without `initdb`."""

    def copied(data: Path) -> Path:
        subprocess.run(["cp", "-a", str(initialised), str(data)], check=True)
        return data

    return copied


@pytest.fixture
def open_path() -> Generator[Path]:
    """A folder that every user may pass, unlike pytest's own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def small_disk(open_path: Path) -> Generator[Path]:
    """A file system of 192 MiB of its own, which a test may fill."""
    folder = open_path / "small disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=192m,mode=755", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs the right to mount a small disk: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: only root's Postgres runs as another user")


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool], float], None]:
    """Wait until a condition holds; fail after the given seconds."""

    def wait(condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not true after {seconds} s"
            time.sleep(0.02)

    return wait


@pytest.fixture
def descendants() -> Generator[Callable[[int], list[psutil.Process]]]:
    """All processes below one; those that a failed test leaves are killed."""
    seen: list[psutil.Process] = []

    def collect(pid: int) -> list[psutil.Process]:
        found = psutil.Process(pid).children(recursive=True)
        seen.extend(found)
        return found

    yield collect
    for process in seen:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
