"""What a measurement is, and how all of them become `docs/benchmarks.md`."""

import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"


@dataclass(frozen=True)
class Figure:
    """One line of the document: what was measured, against what, and what came out."""

    work: str
    against: str
    result: str
    target: str


@dataclass(frozen=True)
class Section:
    """The figures of one benchmark, with what a reader must know to repeat them."""

    title: str
    about: str
    figures: Sequence[Figure]


def alternating(
    first: Callable[[], float], second: Callable[[], float], rounds: int
) -> tuple[list[float], list[float]]:
    """The results of two measurements taken in turn, so that both meet the same disturbances."""
    pairs = [(first(), second()) for _ in range(rounds)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def spread(values: Sequence[float], unit: str) -> str:
    """The median with the smallest and the largest value."""
    return f"{statistics.median(values):.3g} {unit} ({min(values):.3g} to {max(values):.3g})"


def machine() -> str:
    """The machine and the versions, in one paragraph."""
    import torch

    processor = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return (
        f"{processor}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}; "
        f"Python {platform.python_version()}, torch {torch.__version__} on "
        f"{torch.get_num_threads()} threads; commit {_commit()}; load average "
        f"{os.getloadavg()[0]:.1f} at the start."
    )


def write(sections: Sequence[Section], where: str) -> None:
    """Replace the document by these sections."""
    lines = [
        "# Benchmarks",
        "",
        "Made by `make bench`; do not edit. Side-by-side figures were taken in turn in one run;",
        "the machine is shared, so compare ratios, not absolute times.",
        "",
        where,
    ]
    for section in sections:
        lines += ["", f"## {section.title}", "", section.about, ""]
        lines += ["| work | against | measured | asked for |", "|---|---|---|---|"]
        lines += [f"| {f.work} | {f.against} | {f.result} | {f.target} |" for f in section.figures]
    DOCUMENT.write_text("\n".join(lines) + "\n")


def _commit() -> str:
    run = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return run.stdout.strip() or "unknown"
