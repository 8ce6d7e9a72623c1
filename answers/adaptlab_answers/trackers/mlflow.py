"""Runs of an experiment of MLflow, by its REST interface.

A run is found again by its tag, and what is there is not written twice, so the same study can be
sent any number of times: after more of its jobs ended, or after an interruption. Creation is never
repeated by itself, because MLflow would make a second run. Source: MLflow 3.17, "REST API".
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any
from urllib.parse import quote

from adaptlab.errors import TrackerRefused
from adaptlab_answers.trackers.board import TrackerAnswer, TrackerConnection
from adaptlab_answers.trackers.tracked_runs import ID_TAG, TrackedPoint, TrackedRun

MOST_METRICS, MOST_OTHERS = 800, 100
"""Entries of one `runs/log-batch`, which takes 1000 in all."""
LONGEST_NAME, LONGEST_PARAMETER, LONGEST_TAG = 250, 6000, 5000
_STATES = {"succeeded": "FINISHED", "failed": "FAILED", "cancelled": "KILLED"}
_NOT_IN_NAMES = re.compile(r"[^\w\-.: /]")

Entry = dict[str, object]


class MlflowExperiment:
    """The runs of an experiment, which is created if it is not there.

    Args:
        connection: requests to the server.
        name: name of the experiment.
    """

    def __init__(self, connection: TrackerConnection, name: str) -> None:
        self.place = connection.place
        self._connection = connection
        self._name = name

    def send(self, runs: Iterable[TrackedRun]) -> int:
        """Send runs, each after the one above it; see `Board.send`."""
        experiment = self._experiment_id()
        above: dict[tuple[str, ...], str] = {}
        known: dict[str, str] = {}
        owner, number = "", 0
        for run in runs:
            if (whose := run.key.partition("/")[0]) != owner:  # a study, or a job with its seeds
                owner, known = whose, dict(self._known(experiment, whose))
            identity = known.get(run.key) or self._create(experiment, run, above.get(run.path[:-1]))
            above[run.path] = identity
            self._write(identity, run)
            number += 1
        return number

    def _experiment_id(self) -> str:
        path = f"experiments/get-by-name?experiment_name={quote(self._name, safe='')}"
        answer = self._answer("GET", path)
        if answer.status != 404:
            return str(self._read(answer)["experiment"]["experiment_id"])
        made = self._ask("experiments/create", {"name": self._name})
        return str(made["experiment_id"])

    def _known(self, experiment: str, owner: str) -> Iterator[tuple[str, str]]:
        """Yield the keys of a study's or job's runs, with their ids."""
        asked: dict[str, Any] = {
            "experiment_ids": [experiment],
            "filter": f"tags.`{ID_TAG}` LIKE '{owner}%'",
            "max_results": 1000,
        }
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
        batches = zip_longest(
            _parts(_pairs(tags, LONGEST_TAG), MOST_OTHERS),
            _parts(_pairs(run.parameters, LONGEST_PARAMETER), MOST_OTHERS),
            _parts([_metric(point, begun) for point in run.points], MOST_METRICS),
        )
        for batch in batches:
            named = zip(("tags", "params", "metrics"), batch, strict=True)
            entries = {kind: part for kind, part in named if part is not None}
            self._ask("runs/log-batch", {"run_id": identity, **entries})
        if run.ended_at is not None:
            ended: dict[str, object] = {"run_id": identity, "status": _STATES.get(run.state)}
            self._ask("runs/update", {**ended, "end_time": _milliseconds(run.ended_at)})

    def _ask(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        return self._read(self._answer("POST", path, body))

    def _answer(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> TrackerAnswer:
        return self._connection.ask(method, f"/api/2.0/mlflow/{path}", body)

    def _read(self, answer: TrackerAnswer) -> dict[str, Any]:  # Any: the server's JSON
        if answer.is_success:
            assert answer.document is not None
            return answer.document
        advice = " Is it an MLflow server?" if 200 <= answer.status < 300 else ""
        if answer.status in (401, 403):
            advice = f" {self._connection.how_to_sign_in}"
        raise TrackerRefused(
            f"MLflow at {self.place} answered {answer.status}: {answer.text}{advice}"
        )


def _metric(point: TrackedPoint, begun: int) -> Entry:
    # The time follows from the step: MLflow stores a point that it has only once.
    value = "NaN" if not math.isfinite(point.value) else point.value
    at = begun + point.step
    return {"key": _name(point.name), "step": point.step, "value": value, "timestamp": at}


def _pairs(values: Mapping[str, str], longest: int) -> list[Entry]:
    return [{"key": _name(name), "value": value[:longest]} for name, value in values.items()]


def _parts(entries: Sequence[Entry], most: int) -> Iterator[Sequence[Entry]]:
    return (entries[start : start + most] for start in range(0, len(entries), most))


def _name(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text)[:LONGEST_NAME]


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
