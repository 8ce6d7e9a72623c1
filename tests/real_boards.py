"""MLflow, Trackio and W&B, if `make boards` has installed them."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.patience import LONG

SERVERS = Path(__file__).parents[1] / ".venv"


def started(log: Path, *command: str | Path, **changes: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as written:
        return subprocess.Popen(
            command, stdout=written, stderr=written, start_new_session=True,
            env={**os.environ, **changes},
        )  # fmt: skip


def a_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@pytest.fixture
def real_mlflow(tmp_path: Path) -> Iterator[str]:
    """MLflow's own server, if `make boards` has installed it."""
    program = SERVERS / "mlflow/bin/mlflow"
    if not program.exists():
        pytest.skip("`make boards` installs the server")
    port = str(a_free_port())
    store = ("--backend-store-uri", f"sqlite:///{tmp_path / 'board.db'}")
    place = ("--host", "127.0.0.1", "--port", port, "--workers", "1")
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    server = started(tmp_path / "log", program, "server", *store, *place, **quiet)
    try:
        address = f"http://127.0.0.1:{port}"
        waited_for(lambda: httpx.get(f"{address}/health").is_success)
        yield address
    finally:
        os.killpg(server.pid, 15)
        server.wait(30)


SHOW = "import trackio; trackio.show(open_browser=False, block_thread=True, server_port={})"


@pytest.fixture
def real_trackio(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Trackio's own server and its folder, if `make boards` installed it."""
    program, log = SERVERS / "trackio/bin/python", tmp_path / "log"
    if not program.exists():
        pytest.skip("`make boards` installs the server")
    offline = {
        "TRACKIO_DIR": str(tmp_path / "kept"),
        "HF_HUB_OFFLINE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    server = started(log, program, "-c", SHOW.format(a_free_port()), **offline)
    try:
        waited_for(lambda: "write_token=" in log.read_text())
        (address,) = re.findall(r"http\S+write_token=[\w-]+", log.read_text())
        yield address, tmp_path / "kept"
    finally:
        os.killpg(server.pid, 15)
        server.wait(30)


@pytest.fixture
def real_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder with the package wandb, if `make boards` installed it."""
    package = SERVERS / "wandb"
    if not package.exists():
        pytest.skip("`make boards` installs the package")
    monkeypatch.setattr(sys, "path", [*sys.path, str(package)])  # what `.venv` has comes first
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "true")  # its default
    yield package
    if "wandb" in sys.modules:
        sys.modules["wandb"].teardown()  # waits for its process


def waited_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 2 * LONG
    while True:
        try:
            if holds():
                return
        except httpx.HTTPError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.2)
