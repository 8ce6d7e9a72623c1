"""What a measurement is, and how all of them become `docs/benchmarks.md`."""

import math
import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Made by `make bench`; do not edit. Side-by-side figures were taken in turn in one run;
the machine is shared, so compare ratios, not absolute times.
"""
MARK = "\n## "


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


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of the values which at least that share of them do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def document(known: str, sections: Sequence[Section], where: str, order: Sequence[str]) -> str:
    """The document `known` with these sections, measured at `where`, in place of earlier ones.

    `order` names all titles there are; what stands under any other title is left out.
    """
    texts = dict(_sections_of(known)) | {s.title: _text_of(s, where) for s in sections}
    return "\n".join([HEAD, *(texts[title] for title in order if title in texts)])


def write(sections: Sequence[Section], where: str, order: Sequence[str]) -> None:
    """Put these sections into the document, and leave its others as they are."""
    known = DOCUMENT.read_text() if DOCUMENT.exists() else ""
    DOCUMENT.write_text(document(known, sections, where, order))


def _sections_of(known: str) -> Iterator[tuple[str, str]]:
    """Title and text of each section of a document."""
    for part in known.split(MARK)[1:]:
        title, _, rest = part.partition("\n")
        yield title, f"{MARK.strip()} {title}\n{rest.rstrip()}\n"


def _text_of(section: Section, where: str) -> str:
    lines = [f"{MARK.strip()} {section.title}", "", section.about, ""]
    if section.figures:
        lines += ["| work | against | measured | asked for |", "|---|---|---|---|"]
        lines += [f"| {f.work} | {f.against} | {f.result} | {f.target} |" for f in section.figures]
        lines += ["", f"Measured on: {where}", ""]
    return "\n".join(lines)


def _commit() -> str:
    run = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return run.stdout.strip() or "unknown"
