"""Runs of a project of Trackio, by its HTTP interface.

Each log has an id that follows from its run, step and figures, and Trackio ignores one that it has,
so the same study can be sent any number of times. Source: Trackio 0.43, `server.bulk_log`.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator

from adaptlab.errors import TrackerRefused
from adaptlab_answers.trackers.board import TrackerConnection
from adaptlab_answers.trackers.tracked_runs import ID_TAG, TrackedRun

TOKEN_HEADER = "X-Trackio-Write-Token"
MOST_LOGS = 500
"""Logs of one request."""


class TrackioProject:
    """A project on a Trackio server, which is created if it is not there.

    Jobs and seeds are runs, in groups by study; what has no figure, such as the study itself, is
    not a run there.

    Args:
        connection: requests to the server.
        name: name of the project.
    """

    def __init__(self, connection: TrackerConnection, name: str) -> None:
        self.place = connection.place
        self._connection = connection
        self._name = name

    def send(self, runs: Iterable[TrackedRun]) -> int:
        """Send runs that have figures; see `Board.send`."""
        number = 0
        for run in runs:
            logs = list(self._logs(run))
            for start in range(0, len(logs), MOST_LOGS):
                self._post(logs[start : start + MOST_LOGS])
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
                "project": self._name,
                "run": "/".join(run.path[1:] or run.path),
                "run_id": run.key,
                "metrics": metrics,
                "step": step,
                "config": config,
                "log_id": hashlib.sha256(distinct.encode()).hexdigest()[:32],
            }
            config = None

    def _post(self, logs: list[dict[str, object]]) -> None:
        body: dict[str, object] = {"args": [], "kwargs": {"logs": logs, "hf_token": None}}
        answer = self._connection.ask("POST", "/api/bulk_log", body)
        fault = None if answer.document is None else answer.document.get("error")
        if answer.is_success and fault is None:
            return
        advice = f" {self._connection.how_to_sign_in}" if answer.status in (401, 403) else ""
        detail = f"{answer.status}: {fault or answer.text}{advice}"
        raise TrackerRefused(f"Trackio at {self.place} answered {detail}")
