"""A stack for benchmarks, with a base model and small jobs."""

import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from adaptlab_client import Client
from adaptlab_stack.stack import Stack

Document = dict[str, Any]  # the JSON of a spec

BASE: Document = {
    "kind": "pretrain",
    "name": "bench",
    "family": {"name": "minigpt", "width": 16},
    "task": {"name": "sort_ascending", "length": 4, "alphabet": 4},
    "training": {"steps": 2, "batch_size": 4},
    "evaluation": {"samples": 8},
}
TINY: Document = {
    "kind": "adapt",
    "base_model": "bench",
    "task": {"name": "sort_descending", "length": 4, "alphabet": 4},
    "method": "soft_prompt",
    "budget": 32,
    "training": {"steps": 2, "batch_size": 4},
    "evaluation": {"samples": 8},
}
UNSERVED = "unserved"  # a queue that no worker claims from
LIFTED = "10000"  # so many requests a second may one token make, and at once
WITHOUT_LIMITS = {
    "ADAPTLAB_READ_RATE": LIFTED,
    "ADAPTLAB_READ_BURST": LIFTED,
    "ADAPTLAB_WRITE_RATE": LIFTED,
    "ADAPTLAB_WRITE_BURST": LIFTED,
}


@contextmanager
def own_stack(
    workers: int = 1, environment: Mapping[str, str | None] | None = None, servers: int = 1
) -> Generator[Stack]:
    """Run a stack on a fresh data directory during the block."""
    with tempfile.TemporaryDirectory(prefix="adaptlab-bench-") as folder:
        Path(folder).chmod(0o755)
        merged = {**WITHOUT_LIMITS, **(environment or {})}
        data = Path(folder) / "data"
        with Stack.start(data, workers=workers, servers=servers, environment=merged) as stack:
            yield stack


def make_base(client: Client) -> None:
    """Train the base model that `TINY` adapts."""
    client.jobs.wait(client.jobs.submit(BASE).id)


def in_queue(spec: Document, queue: str) -> Document:
    """Return the spec for another queue."""
    return spec | {"resources": {"queue": queue}}
