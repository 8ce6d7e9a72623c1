"""Runs on an MLflow tracking server, by its REST interface.

A run is found again by its tag, and what is there is not written twice, so the same study can be
sent any number of times: after more of its jobs ended, or after an interruption. Creation is never
repeated by itself, because MLflow would make a second run. Source: MLflow 3.17, "REST API".
"""

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import httpx

from adaptlab_client.errors import TrackerRefused
from adaptlab_client.trackers.tracked_runs import ID_TAG, TrackedPoint, TrackedRun

MOST_METRICS, MOST_OTHERS = 1000, 100
"""Entries of one `runs/log-batch`."""
LONGEST_NAME, LONGEST_PARAMETER, LONGEST_TAG = 250, 6000, 5000
SECONDS = 30.0
"""Limit on a request."""
_STATES = {"succeeded": "FINISHED", "failed": "FAILED", "cancelled": "KILLED"}
_NOT_IN_NAMES = re.compile(r"[^\w\-.: /]")


class MlflowServer:
    """An experiment on an MLflow server.

    Args:
        url: address of the server.
        experiment: name of the experiment, which is created if it is not there.
        transport: how requests are sent; the default is the network.

    MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, are sent as by
    MLflow's own client. Every method raises `TrackerRefused`.
    """

    def __init__(
        self, url: str, experiment: str = "adaptlab", transport: httpx.BaseTransport | None = None
    ) -> None:
        self.place = url.rstrip("/")
        self._experiment = experiment
        self._transport = transport

    def send(self, runs: Iterable[TrackedRun]) -> int:
        """Send runs, each after the one above it; return their number."""
        token = os.environ.get("MLFLOW_TRACKING_TOKEN")
        user = os.environ.get("MLFLOW_TRACKING_USERNAME")
        password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
        with httpx.Client(
            base_url=f"{self.place}/api/2.0/mlflow/",
            headers={"Authorization": f"Bearer {token}"} if token else {},
            auth=(user, password) if user and not token else None,
            timeout=SECONDS,
            transport=self._transport,
        ) as client:
            return _Experiment(client, self.place, self._experiment).send(runs)


class _Experiment:
    """The runs of an experiment, over one connection."""

    def __init__(self, client: httpx.Client, url: str, name: str) -> None:
        self._client = client
        self._url = url
        self._experiment = name

    def send(self, runs: Iterable[TrackedRun]) -> int:
        experiment = self._experiment_id()
        known = dict(self._known(experiment))
        above: dict[tuple[str, ...], str] = {}
        number = 0
        for run in runs:
            identity = known.get(run.key) or self._create(experiment, run, above.get(run.path[:-1]))
            above[run.path] = identity
            self._write(identity, run)
            number += 1
        return number

    def _experiment_id(self) -> str:
        name = {"experiment_name": self._experiment}
        answer = self._answer("GET", "experiments/get-by-name", params=name)
        if answer.status_code != 404:
            return str(self._read(answer)["experiment"]["experiment_id"])
        made = self._ask("experiments/create", {"name": self._experiment})
        return str(made["experiment_id"])

    def _known(self, experiment: str) -> Iterator[tuple[str, str]]:
        """Yield what distinguishes the runs of an experiment, with their ids."""
        asked: dict[str, Any] = {"experiment_ids": [experiment], "max_results": 1000}
        while True:
            page = self._ask("runs/search", asked)
            for run in page.get("runs", ()):
                tags = {tag["key"]: tag["value"] for tag in run["data"].get("tags", ())}
                if ID_TAG in tags:
                    yield tags[ID_TAG], run["info"]["run_id"]
            if not page.get("next_page_token"):
                return
            asked["page_token"] = page["next_page_token"]

    def _create(self, experiment: str, run: TrackedRun, parent: str | None) -> str:
        tags = {ID_TAG: run.key, "mlflow.source.name": "adaptlab"}
        if parent is not None:
            tags["mlflow.parentRunId"] = parent
        body = {
            "experiment_id": experiment,
            "run_name": run.path[-1],
            "start_time": _milliseconds(run.started_at),
            "tags": _pairs(tags, LONGEST_TAG),
        }
        return str(self._ask("runs/create", body)["run"]["info"]["run_id"])

    def _write(self, identity: str, run: TrackedRun) -> None:
        tags = {**run.tags, "mlflow.note.content": run.note} if run.note else run.tags
        begun = _milliseconds(run.created_at)
        metrics = [_metric(point, begun) for point in run.points]
        for kind, entries, most in (
            ("tags", _pairs(tags, LONGEST_TAG), MOST_OTHERS),
            ("params", _pairs(run.parameters, LONGEST_PARAMETER), MOST_OTHERS),
            ("metrics", metrics, MOST_METRICS),
        ):
            for start in range(0, len(entries), most):
                part = entries[start : start + most]
                self._ask("runs/log-batch", {"run_id": identity, kind: part})
        if run.ended_at is not None:
            ended: dict[str, object] = {"run_id": identity, "status": _STATES.get(run.state)}
            self._ask("runs/update", {**ended, "end_time": _milliseconds(run.ended_at)})

    def _ask(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        return self._read(self._answer("POST", path, json=body))

    def _answer(self, method: str, path: str, **more: Any) -> httpx.Response:  # Any: for httpx
        try:
            return self._client.request(method, path, **more)
        except httpx.HTTPError as error:
            detail = f"MLflow at {self._url} does not answer: {error}. Check that it runs there."
            raise TrackerRefused(detail) from error

    def _read(self, answer: httpx.Response) -> dict[str, Any]:  # Any: the server's JSON
        if answer.is_success and "json" in answer.headers.get("content-type", ""):
            return answer.json()
        advice = " Is it an MLflow server?" if answer.is_success else ""
        if answer.status_code in (401, 403):
            advice = (
                " Set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
                "MLFLOW_TRACKING_PASSWORD."
            )
        detail = f"MLflow at {self._url} answered {answer.status_code}: {answer.text[:300]}{advice}"
        raise TrackerRefused(detail)


def _metric(point: TrackedPoint, begun: int) -> dict[str, object]:
    # The time follows from the step: MLflow stores a point that it has only once.
    value = "NaN" if not math.isfinite(point.value) else point.value
    at = begun + point.step
    return {"key": _name(point.name), "step": point.step, "value": value, "timestamp": at}


def _pairs(values: Mapping[str, str], longest: int) -> list[dict[str, object]]:
    return [{"key": _name(name), "value": value[:longest]} for name, value in values.items()]


def _name(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text)[:LONGEST_NAME]


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
