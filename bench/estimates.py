"""Errors of estimates, on pairs of jobs on an embedded stack.

`python -m bench.estimates` takes about seven minutes on two cores. The second job of a pair has the
kind of the first, but another size. Its estimate from before the run is divided by its real cost.
"""

import tempfile
from pathlib import Path
from typing import Any

from adaptlab_client import Client
from adaptlab_stack.stack import Stack

ONE_LAYER = {"name": "minigpt", "width": 96, "layers": 1, "heads": 1}
TWO_LAYERS = {"name": "minigpt", "width": 128, "layers": 2, "heads": 4}
Size = tuple[int, int, int, int]  # steps, seeds, trials, batch size
Document = dict[str, Any]  # the JSON of a spec

PRETRAININGS: tuple[tuple[Document, Size, Size], ...] = (
    (ONE_LAYER, (150, 3, 1, 64), (300, 1, 1, 64)),
    (TWO_LAYERS, (60, 1, 1, 32), (60, 3, 1, 32)),
)
ADAPTATIONS: tuple[tuple[Document, str, Size, Size], ...] = (
    ({"name": "lora", "rank": 2}, "base-0-0", (150, 3, 1, 64), (150, 3, 4, 64)),
    ({"name": "prefix_tuning", "length": 4}, "base-0-0", (150, 3, 2, 64), (450, 3, 2, 16)),
    ({"name": "full_finetuning"}, "base-0-0", (150, 3, 1, 64), (300, 1, 1, 64)),
    ({"name": "head_only"}, "base-0-0", (200, 3, 1, 64), (200, 3, 8, 64)),
    ({"name": "soft_prompt", "length": 4}, "base-1-1", (60, 3, 1, 32), (180, 3, 1, 16)),
    ({"name": "adapter", "bottleneck": 4}, "base-0-0", (100, 3, 4, 64), (400, 3, 1, 64)),
)


def main() -> None:
    """Run all pairs and print a Markdown table."""
    print("| kind | size | known from | estimate | took | ratio | memory ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="adaptlab-bench-") as folder:
        Path(folder).chmod(0o755)  # when root runs this, another user runs Postgres
        alone: dict[str, str | None] = {
            "ADAPTLAB_DATABASE_URL": None,
            "ADAPTLAB_BROKER_URL": None,
        }
        with (
            Stack.start(Path(folder) / "data", environment=alone) as stack,
            Client(stack.url, stack.token) as client,
        ):
            for title, spec, size in _jobs():
                print(_row(client, title, spec, size), flush=True)


def _jobs() -> list[tuple[str, Document, Size]]:
    """Return title, spec and size of every job, in order of execution."""
    found: list[tuple[str, Document, Size]] = []
    for number, (family, *sizes) in enumerate(PRETRAININGS):
        for place, size in enumerate(sizes):
            spec = _pretraining(f"base-{number}-{place}", family, size)
            found.append((f"pretraining, width {family['width']}", spec, size))
    for method, base, *sizes in ADAPTATIONS:
        found += [(method["name"], _adaptation(base, method, size), size) for size in sizes]
    return found


def _pretraining(name: str, family: Document, size: Size) -> Document:
    steps, seeds, _, batch_size = size
    return {
        "kind": "pretrain",
        "name": name,
        "family": family,
        "task": {"name": "sort_ascending"},
        "training": {"steps": steps, "batch_size": batch_size},
        "seeds": seeds,
    }


def _adaptation(base: str, method: Document, size: Size) -> Document:
    steps, seeds, trials, batch_size = size
    return {
        "kind": "adapt",
        "base_model": base,
        "task": {"name": "sort_descending"},
        "method": method,
        "training": {"steps": steps, "batch_size": batch_size},
        "tuning": {"trials": trials},
        "seeds": seeds,
    }


def _row(client: Client, title: str, spec: Document, size: Size) -> str:
    estimate = client.jobs.preview(spec).estimate
    job = client.jobs.submit(spec)
    (job,) = client.jobs.as_ended([job.id], timeout=600)
    attempt = client.jobs.attempts(job.id)[-1]
    if estimate is None or attempt.usage is None or None in (attempt.started_at, attempt.ended_at):
        return f"| {title} | {size} | {job.state}: {job.reason} | | | | |"
    assert attempt.started_at is not None
    assert attempt.ended_at is not None
    took = (attempt.ended_at - attempt.started_at).total_seconds()
    memory = estimate.memory_bytes / attempt.usage.peak_memory_bytes
    ratio = estimate.seconds / took
    return (
        f"| {title} | {' × '.join(map(str, size))} | {estimate.basis} | {estimate.seconds:.1f} s "
        f"| {took:.1f} s | {ratio:.2f} | {memory:.2f} |"
    )


if __name__ == "__main__":
    main()
