"""Run benchmarks: `python -m bench [NAME …]` updates `bench/figures.md`."""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from bench import (
    added_cost,
    against_mlflow,
    answers,
    backlog,
    blobs,
    engine,
    figures,
    gpu,
    published,
    queries,
    server,
    statistics,
)
from bench.figures import Section

MEASUREMENTS: Mapping[str, tuple[str, Callable[[], Section]]] = {
    "server": ("The server", server.measure),
    "mlflow": (against_mlflow.TITLE, against_mlflow.measure),
    "queue": ("The queue", backlog.measure),
    "cost": ("What the server costs a training", added_cost.measure),
    "blobs": ("Large files through the API", blobs.measure),
    "queries": (queries.TITLE, queries.measure),
    "engine": ("The engine", engine.measure),
    "published": (published.TITLE, published.measure),
    "answers": (answers.TITLE, answers.measure),
    "gpu": (gpu.TITLE, gpu.measure),
    "statistics": (statistics.TITLE, statistics.measure),
}
"""Benchmarks by name, with the title of their section, in document order."""


def main(arguments: Sequence[str]) -> int:
    """Run the named benchmarks, or all; replace their sections."""
    asked = _asked(arguments)
    for name in asked.names or MEASUREMENTS:
        title, measure = MEASUREMENTS[name]
        where = figures.machine()
        print(f"{name}: {where}", flush=True)
        started = time.monotonic()
        section = measure()
        assert section.title == title, f"{name} made {section.title!r}, not {title!r}"
        for figure in section.figures:
            print(f"{figure.work} | {figure.against} | {figure.result} | {figure.target}")
        if not section.figures:
            print(section.about)
        elif not asked.dry:
            measured = [title for title, _ in MEASUREMENTS.values()]
            figures.write([section], where, measured)
        print(f"{name} took {time.monotonic() - started:.0f} s", flush=True)
    return 0


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASUREMENTS))
    parser.add_argument("--dry", action="store_true", help="print only, write nothing down")
    asked = parser.parse_args(arguments)
    for name in asked.names:
        if name not in MEASUREMENTS:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(MEASUREMENTS)}")
    return asked


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
