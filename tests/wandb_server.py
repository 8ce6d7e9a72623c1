"""What W&B's server keeps of runs that `wandb sync` sends, on loopback."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.patience import LONG


class WandbServer:
    """Runs by id: what was said of them, and their history by line.

    Args:
        package: the folder with the package wandb.
        folder: for what `wandb` keeps of its own.
    """

    def __init__(self, package: Path, folder: Path) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.history: dict[str, dict[int, dict[str, Any]]] = {}
        self.summaries: dict[str, dict[str, Any]] = {}
        self.address = ""
        self._package = package
        self._folder = folder

    def sync(self, folder: Path) -> str:
        """Send a folder with W&B's own program; return what it printed."""
        own = {f"WANDB_{name}_DIR": str(self._folder) for name in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [sys.executable, "-m", "wandb", "sync", str(folder)],
            env={
                **os.environ, **own, "PYTHONPATH": str(self._package), "WANDB_API_KEY": "k" * 40,
                "WANDB_BASE_URL": self.address, "WANDB_ERROR_REPORTING": "false",
            },
            cwd=self._folder, capture_output=True, text=True, check=False, timeout=5 * LONG,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stderr

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path != "/graphql":
            self._stream(path.split("/")[-2], body.get("files", {}))
            return {}
        if "upsertBucket" not in body["query"]:
            return {"data": {}}
        known = body["variables"]
        run = self.runs.setdefault(known["name"], {})
        run |= {name: value for name, value in known.items() if value is not None}
        project = {"id": "p", "name": known["project"], "entity": {"id": "e", "name": "us"}}
        lines = len(self.history.get(known["name"], {}))
        bucket = {"id": "b", "name": known["name"], "project": project, "historyLineCount": lines}
        return {"data": {"upsertBucket": {"bucket": bucket, "inserted": True}}}

    def _stream(self, run: str, files: dict[str, dict[str, Any]]) -> None:
        for name, part in files.items():
            lines = [json.loads(line) for line in part["content"]]
            if name == "wandb-history.jsonl":
                self.history.setdefault(run, {}).update(enumerate(lines, part["offset"]))
            elif name == "wandb-summary.json":
                self.summaries[run] = lines[-1]


@contextmanager
def wandb_server(package: Path, folder: Path) -> Generator[WandbServer]:
    """A server that runs while the block does."""
    folder.mkdir()
    kept = WandbServer(package, folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            answer = json.dumps(kept.answer(self.path, json.loads(body))).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        kept.address = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield kept
        finally:
            server.shutdown()
            thread.join()
