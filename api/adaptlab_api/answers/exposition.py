"""Figures in the text format of Prometheus."""

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Metric, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector
from starlette.responses import Response

from adaptlab_api.answers.answers import NO_STORE
from adaptlab_api.limits.request_counts import BOUNDS, RouteCounts
from adaptlab_db.tables import CLAIM_BOUNDS
from adaptlab_services.server.operations import ServerFigures, WorkerFigures


def exposed(figures: ServerFigures, requests: Iterable[RouteCounts]) -> Response:
    """Return the answer to a scrape."""
    registry = CollectorRegistry()
    registry.register(_Figures(figures, requests))
    headers = NO_STORE | {"Content-Type": CONTENT_TYPE_LATEST}
    return Response(generate_latest(registry), headers=headers)


class _Figures(Collector):
    """The figures of one scrape, as prometheus-client collects them."""

    def __init__(self, figures: ServerFigures, requests: Iterable[RouteCounts]) -> None:
        self._figures = figures
        self._requests = tuple(requests)

    def collect(self) -> Iterator[Metric]:
        """Yield every family of figures."""
        figures = self._figures
        yield _gauge(
            "adaptlab_info", "The version of the server.", {"version": version("adaptlab")}, 1
        )
        yield from _queues(figures)
        yield from _attempts(figures)
        yield from _artifacts(figures)
        yield from _workers(figures.workers)
        yield from _gpus(figures.workers)
        yield from _http(self._requests)


def _gauge(name: str, text: str, labels: dict[str, str], value: float) -> Metric:
    family = GaugeMetricFamily(name, text, labels=tuple(labels))
    family.add_metric(tuple(labels.values()), value)
    return family


def _queues(figures: ServerFigures) -> Iterator[Metric]:
    queued = GaugeMetricFamily("adaptlab_queued_jobs", "Jobs that wait in a queue.", labels=_QUEUE)
    oldest = GaugeMetricFamily(
        "adaptlab_oldest_queued_job_age_seconds",
        "Time since the submission of the oldest job in a queue; 0 if it is empty.",
        labels=_QUEUE,
    )
    running = GaugeMetricFamily("adaptlab_running_jobs", "Jobs that workers run.", labels=_QUEUE)
    takers = GaugeMetricFamily(
        "adaptlab_queue_workers", "Live workers of a queue that take jobs now.", labels=_QUEUE
    )
    for queue in figures.queues:
        queued.add_metric((queue.name,), queue.queued)
        oldest.add_metric((queue.name,), queue.oldest_seconds)
        running.add_metric((queue.name,), queue.running)
        taking = [w for w in figures.workers if w.takes_jobs and queue.name in w.queues]
        takers.add_metric((queue.name,), len(taking))
    yield from (queued, oldest, running, takers)


def _attempts(figures: ServerFigures) -> Iterator[Metric]:
    ended = CounterMetricFamily(
        "adaptlab_attempts", "Attempts that ended, by outcome.", labels=("outcome", "reason")
    )
    for row in figures.attempts:
        ended.add_metric((row.outcome, row.reason), row.attempts)
    yield ended
    lost = sum(row.attempts for row in figures.attempts if row.outcome == "lost")
    yield CounterMetricFamily(
        "adaptlab_lost_leases", "Leases that ended without a heartbeat.", value=lost
    )
    claims = HistogramMetricFamily(
        "adaptlab_claim_wait_seconds",
        "Time for which a job could have been claimed before a worker claimed it.",
        labels=_QUEUE,
    )
    for claimed in figures.claims:
        buckets = _buckets(CLAIM_BOUNDS, claimed.buckets)
        claims.add_metric((claimed.queue,), buckets, claimed.seconds)
    yield claims


def _artifacts(figures: ServerFigures) -> Iterator[Metric]:
    labels = ("store", "state")
    number = GaugeMetricFamily(
        "adaptlab_artifacts", "Artifacts, at most a minute ago.", labels=labels
    )
    size = GaugeMetricFamily(
        "adaptlab_artifact_bytes", "Bytes of artifacts, at most a minute ago.", labels=labels
    )
    for share in figures.artifacts:
        number.add_metric((share.store, share.state), share.artifacts)
        size.add_metric((share.store, share.state), share.bytes)
    yield from (number, size)


def _workers(workers: Sequence[WorkerFigures]) -> Iterator[Metric]:
    families = {
        name: GaugeMetricFamily(f"adaptlab_worker_{name}", text, labels=("host", "worker"))
        for name, text in (
            ("takes_jobs", "1 for a live worker that takes jobs, 0 for one that does not."),
            ("memory_used_bytes", "Memory of a worker and its trainers."),
            ("machine_memory_bytes", "Memory of the worker's machine or container."),
            ("machine_memory_available_bytes", "Memory of the machine that is available."),
        )
    }
    for worker in workers:
        labels = (worker.host, str(worker.id))
        families["takes_jobs"].add_metric(labels, float(worker.takes_jobs))
        if worker.load is None:
            continue
        for name in families.keys() - {"takes_jobs"}:
            families[name].add_metric(labels, getattr(worker.load, name))
    yield from families.values()


def _gpus(workers: Sequence[WorkerFigures]) -> Iterator[Metric]:
    labels = ("host", "worker", "gpu", "name")
    total, used, busy = (
        GaugeMetricFamily(f"adaptlab_worker_gpu_{name}", text, labels=labels)
        for name, text in (
            ("memory_bytes", "Memory of a GPU that a worker can use."),
            ("memory_used_bytes", "Memory of the GPU that any process uses."),
            ("busy_ratio", "Share of the last second in which the GPU computed anything."),
        )
    )
    for worker in workers:
        for gpu in worker.load.gpus if worker.load is not None else ():
            values = (worker.host, str(worker.id), str(gpu.index), gpu.name)
            total.add_metric(values, gpu.memory_bytes)
            used.add_metric(values, gpu.memory_used_bytes)
            if gpu.busy is not None:
                busy.add_metric(values, gpu.busy)
    yield from (total, used, busy)


def _http(requests: Sequence[RouteCounts]) -> Iterator[Metric]:
    durations = HistogramMetricFamily(
        "adaptlab_http_request_duration_seconds",
        "Time until the answer to a request began, without long polls.",
        labels=("method", "route"),
    )
    number = CounterMetricFamily(
        "adaptlab_http_requests",
        "Answered requests, by status.",
        labels=("method", "route", "status"),
    )
    for route in requests:
        labels = (route.method, route.route)
        durations.add_metric(labels, _buckets(BOUNDS, route.buckets), route.seconds)
        for status, count in route.statuses:
            number.add_metric((*labels, str(status)), count)
    yield from (durations, number)


def _buckets(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return a histogram's buckets, each with those below it."""
    names = [*(f"{float(bound):g}" for bound in bounds), "+Inf"]
    return list(zip(names, map(float, accumulate(counts)), strict=True))


_QUEUE = ("queue",)
