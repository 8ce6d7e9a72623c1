"""The server: submissions at a steady rate, first step, memory."""

import time
from datetime import datetime
from itertools import islice

import psutil

from adaptlab_client import Client
from adaptlab_stack.stack import Stack
from bench.connection import Connection
from bench.figures import Figure, Section, quantile, spread
from bench.open_loop import Send, latencies
from bench.own_stack import BASE, TINY, UNSERVED, in_queue, make_base, own_stack

__all__ = ["BASE", "TINY", "measure"]

JOBS = 25
REQUESTS = 200
RATE = 100  # submits a second
STEADY_RATE = 40  # submits a second that one process of the API keeps up with
SUBMIT_SECONDS = 15
WARM_SECONDS = 3
CONNECTIONS = 8


def measure() -> Section:
    """Start a stack on a fresh data directory, and measure it."""
    with own_stack() as stack, Client(stack.url, stack.token) as client:
        make_base(client)
        overheads = [_overhead(client) for _ in range(JOBS)]
        overheads.sort()
        print(f"  first step: {spread(overheads, 'ms')}", flush=True)
        submits = [_submits(stack, RATE, 1), _submits(stack, STEADY_RATE, 1)]
        for _ in range(REQUESTS):
            list(islice(client.jobs.list(page_size=50), 50))
        memory = {name: _resident(process.pid) for name, process in stack.processes.items()}
    with own_stack(servers=2) as stack, Client(stack.url, stack.token) as client:
        make_base(client)
        submits.append(_submits(stack, RATE, 2))
    return Section(
        "The server",
        f"A fresh stack with one worker on one machine runs {JOBS} tiny jobs one after the other. "
        f"Then a client on the same cores submits jobs for {SUBMIT_SECONDS} s at a steady rate "
        f"over {CONNECTIONS} kept-alive connections, to a queue without workers and without rate "
        "limits; each submission is timed from when it was due. Memory is resident memory after "
        f"these and {REQUESTS} list requests.",
        (
            *submits,
            Figure(
                "create a job to its first training step, idle warm worker",
                "the server's clock",
                f"{spread(overheads, 'ms')}, 9 of 10 under {quantile(overheads, 0.9):.0f} ms",
                "p50 150 ms",
            ),
            Figure("API, resident", "", f"{memory['api']:.0f} MB", "under 256 MB"),
            Figure("idle worker's parent, resident", "", f"{memory['worker']:.0f} MB", "120 MB"),
        ),
    )


def _submits(stack: Stack, rate: int, servers: int) -> Figure:
    """Measure submissions at a steady rate, from when each was due."""
    spec = in_queue(TINY, UNSERVED)

    def sending() -> Send:
        connection = Connection(stack.url, stack.token)
        return lambda _: connection.post("/v1/jobs", spec)

    connections = [sending() for _ in range(CONNECTIONS)]
    latencies(connections, rate, rate * WARM_SECONDS)
    waits = latencies(connections, rate, rate * SUBMIT_SECONDS)
    taken = sorted(1000 * seconds for seconds in waits)
    latency = f"p50 {quantile(taken, 0.5):.3g} ms, p99 {quantile(taken, 0.99):.3g} ms"
    processes = "one process of the API" if servers == 1 else f"{servers} processes of the API"
    print(f"  submit, {rate} a second, {processes}: {latency}", flush=True)
    return Figure(f"submit a job, {rate} a second", processes, latency, "10 ms / 60 ms at 100")


def _overhead(client: Client) -> float:
    """Return the milliseconds from a job's row to its first step."""
    job = client.jobs.wait(client.jobs.submit(TINY).id)
    attempts = client.jobs.attempts(job.id)
    first_step = attempts[-1].first_step_at
    if first_step is None or job.created_at is None:
        raise RuntimeError(f"The job {job.id} ended as {job.state} without a first step.")
    _settle(client)
    return (_moment(first_step) - job.created_at).total_seconds() * 1000


def _settle(client: Client) -> None:
    """Wait until the worker has written everything of the last job."""
    while any(not job.terminal for job in client.jobs.list(page_size=5)):
        time.sleep(0.02)


def _moment(value: datetime | str) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def _resident(pid: int) -> float:
    return psutil.Process(pid).memory_info().rss / 2**20
