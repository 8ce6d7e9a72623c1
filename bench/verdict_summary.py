"""Summary of simulated verdicts: worst shares, power and extremes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

EXTREME = 0.07
"""A share above this is named with its case."""
COLUMNS = (
    "best lost",
    "pair falsely ordered",
    "one left",
    "paired t",
    "limits missed",
    "differences missed",
    "against leader missed",
    "chosen missed",
)
WRONG = tuple(name for name in COLUMNS if name not in ("one left", "paired t"))
POWER = ("one left", "paired t")
DECIDING = 5


class Line(NamedTuple):
    """One case at one number of seeds, with its shares as printed."""

    name: str
    seeds: int
    texts: Sequence[str]

    def share(self, column: str) -> float | None:
        """Return one share, or None if there were too few studies for it."""
        text = self.texts[COLUMNS.index(column)]
        return None if text == "–" else float(text)


def summary(kinds: Mapping[str, Sequence[Line]], powerful: Sequence[Line]) -> str:
    """Return the tables: worst shares per kind, power, and extremes."""
    every = [line for lines in kinds.values() for line in lines] + list(powerful)
    return "\n".join(
        [
            "Worst share of any case:\n",
            *_table(["kind", "seeds", "cases", *WRONG], _worst({**kinds, "one best": powerful})),
            "\nPower, as *one left* / paired t:\n",
            *_power(powerful),
            f"\nCases with a share above {EXTREME:g}:\n",
            *_table(["case", "seeds", "share"], _extremes(every)),
        ]
    )


def _worst(kinds: Mapping[str, Sequence[Line]]) -> Iterator[list[str]]:
    for kind, lines in kinds.items():
        for seeds in sorted({line.seeds for line in lines}):
            some = [line for line in lines if line.seeds == seeds]
            yield [kind, str(seeds), str(len(some)), *(_largest(some, name) for name in WRONG)]


def _largest(lines: Sequence[Line], column: str) -> str:
    shares = [share for line in lines if (share := line.share(column)) is not None]
    return f"{max(shares):.3f}" if shares else "–"


def _power(lines: Sequence[Line]) -> list[str]:
    lines = [line for line in lines if line.seeds >= DECIDING]  # fewer seeds order nothing
    seeds = sorted({line.seeds for line in lines})
    names = dict.fromkeys(line.name for line in lines)
    rows = ([name, *(_cell(line) for line in lines if line.name == name)] for name in names)
    return _table(["case", *(f"{number} seeds" for number in seeds)], rows)


def _cell(line: Line) -> str:
    return " / ".join(line.texts[COLUMNS.index(name)] for name in POWER)


def _extremes(lines: Sequence[Line]) -> Iterator[list[str]]:
    for line in lines:
        large = [
            f"{name} {share:.3f}"
            for name in WRONG
            if (share := line.share(name)) is not None and share > EXTREME
        ]
        if large:
            yield [line.name, str(line.seeds), ", ".join(large)]


def _table(head: Sequence[str], rows: Iterator[list[str]]) -> list[str]:
    ruled = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(row)} |" for row in (list(head), ruled, *rows)]
