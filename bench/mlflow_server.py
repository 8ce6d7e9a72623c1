"""The peer: MLflow's server, one process on the same Postgres."""

import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg

PYTHON = "BENCH_MLFLOW_PYTHON"  # names the Python of an environment with mlflow and psycopg2-binary
DATABASE = "mlflow"
START_SECONDS = 180.0
LOOK_SECONDS = 0.2
QUIET = {
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
}


def peer() -> tuple[str, str] | None:
    """Return MLflow's Python and version; None if not configured."""
    python = os.environ.get(PYTHON)
    if not python:
        return None
    asked = [python, "-c", "import mlflow.version; print(mlflow.version.VERSION)"]
    version = subprocess.run(asked, check=True, capture_output=True, text=True)
    return python, version.stdout.strip()


@contextmanager
def mlflow_server(python: str, database_url: str) -> Generator[str]:
    """Run MLflow during the block; yield its address.

    Args:
        python: of the environment that has MLflow.
        database_url: adaptlab's database, beside which MLflow gets one of its own.
    """
    plain = database_url.replace("+psycopg", "")
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")
    store = plain.rpartition("/")[0].replace("postgresql:", "postgresql+psycopg2:")
    with tempfile.TemporaryDirectory(prefix="adaptlab-bench-mlflow-") as folder:
        port = _free_port()
        log = Path(folder) / "log"
        argv = (python, "-m", "mlflow", "server", "--backend-store-uri", f"{store}/{DATABASE}")
        argv += ("--host", "127.0.0.1", "--port", str(port), "--workers", "1")
        argv += ("--artifacts-destination", f"{folder}/artifacts")
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv,
                cwd=folder,
                env=os.environ | QUIET,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            url = f"http://127.0.0.1:{port}"
            _await_health(url, process, log)
            yield url
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=30)


def _await_health(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(LOOK_SECONDS)
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"MLflow's server does not answer:\n{log.read_text()[-3000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
