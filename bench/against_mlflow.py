"""Comparison with a tracker: create a job, write points, list jobs."""

import itertools
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from adaptlab.runs.events import MetricPoint, Metrics
from adaptlab_client import Client
from adaptlab_services.leases.leases import Claim, Ledger
from bench.connection import Connection
from bench.figures import Figure, Section, spread
from bench.ingesting import held_job
from bench.mlflow_server import PYTHON, mlflow_server, peer
from bench.own_stack import TINY, UNSERVED, in_queue, make_base, own_stack

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "10"))
CREATIONS, LISTINGS, BATCHES = 20, 5, 3  # in a round
BATCH = 1000  # points
PAGE = 50
# The parameters of a job's spec, as a tracker would record them.
TAGS = {
    "mlflow.runName": "bench",
    "kind": "adapt",
    "base_model": "bench",
    "task": "sort_descending",
    "method": "soft_prompt",
    "budget": "32",
    "steps": "2",
    "batch_size": "4",
}
# How much a page of jobs says of each.
VIEWS = {"basic": "without specs", "full": "with both specs"}
TITLE = "Against MLflow"
ABOUT = (
    "MLflow {version} and adaptlab use the same Postgres server, with one database and one worker "
    "process each. The same bare client sends requests in turn over one kept-alive connection to "
    f"each; medians of {ROUNDS} rounds. A job is resolved, validated, stored with its spec and "
    "announced to workers; a run is stored with eight tags that hold the same. adaptlab checks a "
    "token with each request and records changes in its audit log; MLflow does neither. MLflow's "
    "job execution is off (MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false), because it would need a "
    "queue. adaptlab's workers write curves directly to the database, not over HTTP; there is no "
    "route for it. A page of MLflow's runs with tags has {theirs} KB; a page of jobs has {basic} "
    "KB without specs (`view=basic`) and {full} KB with the submitted and the resolved spec, which "
    "MLflow does not have."
)


@dataclass(frozen=True)
class Contest:
    """Two ways to do one thing, and the repetitions per round."""

    work: str
    against: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    times: int
    target: str


def measure() -> Section:
    """Run both servers side by side; without MLflow, measure nothing."""
    mlflow = peer()
    if mlflow is None:
        about = f"Not measured: no peer. Name a Python that has MLflow in {PYTHON}."
        return Section(TITLE, about, ())
    python, version = mlflow
    with (
        own_stack() as stack,
        Client(stack.url, stack.token) as client,
        mlflow_server(python, stack.database_url) as url,
    ):
        make_base(client)
        ours, run = Connection(stack.url, stack.token), MlflowRun(Connection(url))
        with held_job(stack, client) as (ledger, claim):
            contests = (
                *(_creating(ours, run), _writing(ledger, claim, run)),
                *(_listing(ours, run, view) for view in VIEWS),
            )
            figures = tuple(_compared(contest) for contest in contests)
        sizes = {view: _kilobytes(_page(ours, view)) for view in VIEWS}
        about = ABOUT.format(version=version, theirs=_kilobytes(run.search()), **sizes)
    return Section(TITLE, about, figures)


class MlflowRun:
    """The requests to MLflow, in an experiment of their own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._experiment = self._post("experiments/create", name="bench")["experiment_id"]
        self._steps = itertools.count()
        self._run = self.create()

    def create(self) -> str:
        """Create a run with tags; return its id."""
        tags = [{"key": key, "value": value} for key, value in TAGS.items()]
        started = {"experiment_id": self._experiment, "start_time": _milliseconds()}
        return str(self._post("runs/create", tags=tags, **started)["run"]["info"]["run_id"])

    def log_batch(self) -> None:
        """Write the next points of the first run's curve."""
        at = _milliseconds()
        metrics = [
            {"key": "train_loss", "value": 0.5, "timestamp": at, "step": next(self._steps)}
            for _ in range(BATCH)
        ]
        self._post("runs/log-batch", run_id=self._run, metrics=metrics)

    def search(self) -> Any:
        """Return the newest runs."""
        answer = self._post(
            "runs/search",
            experiment_ids=[self._experiment],
            max_results=PAGE,
            order_by=["attributes.start_time DESC"],
        )
        assert len(answer["runs"]) == PAGE
        return answer

    def _post(self, path: str, **body: object) -> Any:
        return self._connection.post(f"/api/2.0/mlflow/{path}", body)


def _creating(ours: Connection, run: MlflowRun) -> Contest:
    spec = in_queue(TINY, UNSERVED)
    return Contest(
        "create a job, ms",
        "create a run",
        lambda: ours.post("/v1/jobs", spec),
        run.create,
        CREATIONS,
        "2 times faster",
    )


def _listing(ours: Connection, run: MlflowRun, view: str) -> Contest:
    title = f"list the newest {PAGE}, {VIEWS[view]}, ms"
    page = partial(_page, ours, view)
    return Contest(title, "search of runs", page, run.search, LISTINGS, "5 times faster")


def _page(ours: Connection, view: str) -> Any:
    answer = ours.get(f"/v1/jobs?page_size={PAGE}&view={view}")
    assert len(answer["data"]) == PAGE
    return answer


def _writing(ledger: Ledger, claim: Claim, run: MlflowRun) -> Contest:
    """Write points in units of work, as the recorder does."""
    steps = itertools.count()

    def record() -> None:
        at = {"replicate": 0, "name": "train_loss", "value": 0.5}
        points = tuple(MetricPoint(step=next(steps), **at) for _ in range(BATCH))
        ledger.record(claim, [Metrics(points=points)])

    title = f"{BATCH:,} points of a curve, ms"
    return Contest(title, "log-batch", record, run.log_batch, BATCHES, "10 times faster")


def _compared(contest: Contest) -> Figure:
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(ROUNDS):
        ours += [_timed(contest.ours) for _ in range(contest.times)]
        theirs += [_timed(contest.theirs) for _ in range(contest.times)]
    ratio = statistics.median(theirs) / statistics.median(ours)
    print(f"  {contest.work}: {ratio:.1f} times faster", flush=True)
    return Figure(
        contest.work,
        f"{contest.against}: {spread(theirs, 'ms')}",
        f"{spread(ours, 'ms')}: {ratio:.1f} times as fast",
        contest.target,
    )


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1000


def _kilobytes(document: object) -> int:
    return round(len(json.dumps(document, separators=(",", ":"))) / 1000)


def _milliseconds() -> int:
    return int(time.time() * 1000)
