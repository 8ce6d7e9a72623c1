"""Runs on a Trackio server, by its HTTP interface.

Each log has an id that follows from its run, step and figures, and Trackio ignores one that it has,
so the same study can be sent any number of times. Source: Trackio 0.43, `server.bulk_log`.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qs, urlsplit

import httpx

from adaptlab_client.errors import TrackerRefused
from adaptlab_client.trackers.tracked_runs import ID_TAG, TrackedRun

SECONDS = 60.0
"""Limit on a request."""
MOST_LOGS = 500
"""Logs of one request."""


class TrackioServer:
    """A project on a Trackio server.

    Jobs and seeds are runs, in groups by study; what has no figure, such as the study itself, is
    not a run there.

    Args:
        url: address of the server, as `trackio show` prints it, also with its `write_token`.
        project: name of the project, which is created if it is not there.
        transport: how requests are sent; the default is the network.

    Without a token in the address, TRACKIO_WRITE_TOKEN is sent. Every method raises
    `TrackerRefused`.
    """

    def __init__(
        self, url: str, project: str = "adaptlab", transport: httpx.BaseTransport | None = None
    ) -> None:
        parts = urlsplit(url)
        self.place = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        (named,) = parse_qs(parts.query).get("write_token", [""])[:1]
        self._token = named or os.environ.get("TRACKIO_WRITE_TOKEN", "")
        self._project = project
        self._transport = transport

    def send(self, runs: Iterable[TrackedRun]) -> int:
        """Send runs that have figures; return their number."""
        headers = {"X-Trackio-Write-Token": self._token} if self._token else {}
        number = 0
        with httpx.Client(headers=headers, timeout=SECONDS, transport=self._transport) as client:
            for run in runs:
                logs = list(self._logs(run))
                for start in range(0, len(logs), MOST_LOGS):
                    self._post(client, logs[start : start + MOST_LOGS])
                number += bool(logs)
        return number

    def _logs(self, run: TrackedRun) -> Iterator[dict[str, object]]:
        figures: dict[int, dict[str, float | str]] = {}
        for point in run.points:
            value = point.value if math.isfinite(point.value) else "NaN"
            figures.setdefault(point.step, {})[point.name] = value
        facts = {**run.parameters, **run.tags, ID_TAG: run.key, "state": run.state}
        config: dict[str, str] | None = {**facts, "_Group": run.path[0]}  # the first is kept
        for step, metrics in sorted(figures.items()):
            distinct = json.dumps([run.key, step, metrics], sort_keys=True)
            yield {
                "project": self._project,
                "run": "/".join(run.path[1:] or run.path),
                "run_id": run.key,
                "metrics": metrics,
                "step": step,
                "config": config,
                "log_id": hashlib.sha256(distinct.encode()).hexdigest()[:32],
            }
            config = None

    def _post(self, client: httpx.Client, logs: list[dict[str, object]]) -> None:
        body: dict[str, object] = {"args": [], "kwargs": {"logs": logs, "hf_token": None}}
        try:
            answer = client.post(f"{self.place}/api/bulk_log", json=body)
        except httpx.HTTPError as error:
            detail = f"Trackio at {self.place} does not answer: {error}. Check that it runs there."
            raise TrackerRefused(detail) from error
        is_json = "json" in answer.headers.get("content-type", "")
        fault = answer.json().get("error") if is_json else answer.text[:300]
        if answer.is_success and is_json and fault is None:
            return
        detail = f"{answer.status_code}: {fault or answer.text[:300]}"
        raise TrackerRefused(f"Trackio at {self.place} answered {detail}")
