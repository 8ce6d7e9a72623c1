"""Simulated gain and retention: coverage of limits, and dominated methods.

Seeds of a method are normal in probit units on both axes, with items that are harder for all. A
share of items is answered alike by a base and its adaptation, as it is in real runs. Run as `python
-m bench.retention [STUDIES]`, it prints the table of docs/reference/simulations.md.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from adaptlab.statistics.frontier import Position, domination, joint_region
from adaptlab.statistics.leads import ERROR
from adaptlab.statistics.pairs import holm
from adaptlab.statistics.retention import retained, retention_limits
from adaptlab.statistics.samples import Sample, residual_of
from adaptlab.statistics.spread import spread

FLOOR, BASE, ITEMS, MARGIN = 0.1, 0.9, 400, 0.02
SEED_SPREAD = 0.15
"""The standard deviation of seeds, in probit units: about 4 points near 80 %."""


@dataclass(frozen=True, slots=True)
class Point:
    """The typical gain and retention of a method, and the share of seeds lost.

    A lost seed gains and retains nothing.
    """

    gain: float
    retention: float
    lost: float = 0.0

    @property
    def median(self) -> float:
        """The median retention of all seeds, lost ones included."""
        among = (0.5 - self.lost) / (1 - self.lost)
        kept = ndtri(FLOOR + self.retention * (BASE - FLOOR)) + SEED_SPREAD * ndtri(among)
        return float((ndtr(kept) - FLOOR) / (BASE - FLOOR))


CASES: Mapping[str, tuple[Point, ...]] = {
    "one method": (Point(0.7, 0.8),),
    "two equal": (Point(0.7, 0.8),) * 2,
    "six equal": (Point(0.7, 0.8),) * 6,
    "six on one frontier": tuple(Point(0.4 + 0.08 * n, 0.9 - 0.08 * n) for n in range(6)),
    "six equal, a third of seeds lost": (Point(0.7, 0.8, 1 / 3),) * 6,
    "one of six behind by 15 on both axes": (*(Point(0.8, 0.85),) * 5, Point(0.65, 0.7)),
    "one of six behind by 30 of retention": (*(Point(0.8, 0.85),) * 5, Point(0.7, 0.55)),
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A method's seeds and items, with its law."""

    position: Position
    base: float
    law: Point


def study(points: Sequence[Point], seeds: int, draw: Generator) -> list[Drawn]:
    """Return the methods of one study on the same items and base model."""
    hard = draw.normal(size=(2, ITEMS))
    old = (hard[0] < ndtri(BASE))[None].astype(np.float64)
    return [_drawn(point, seeds, hard, old, draw) for point in points]


def _drawn(
    point: Point,
    seeds: int,
    hard: NDArray[np.float64],
    old: NDArray[np.float64],
    draw: Generator,
) -> Drawn:
    lost = draw.random(seeds) < point.lost
    kept = FLOOR + point.retention * (BASE - FLOOR)
    right = [
        _outcomes(share, low, seeds, items, lost, draw)
        for share, low, items in ((point.gain, 0.0, hard[1]), (kept, FLOOR, hard[0]))
    ]
    base = np.repeat(old, seeds, axis=0)
    gain = Sample(
        values=right[0].mean(axis=1),
        by_unit=right[0].mean(axis=0),
        residual=residual_of(spread(right[0])),
        items=ITEMS,
    )
    position = Position(gain=gain, retention=retained(right[1], base, FLOOR))
    return Drawn(position, float(old.mean()), point)


def _outcomes(
    share: float,
    low: float,
    seeds: int,
    hard: NDArray[np.float64],
    lost: NDArray[np.bool_],
    draw: Generator,
) -> NDArray[np.float64]:
    """Return outcomes [seed, item]: four fifths of an item's luck is its own."""
    seen = np.sqrt(0.8) * hard + np.sqrt(0.2) * draw.normal(size=(seeds, ITEMS))
    shift = ndtri(share) + SEED_SPREAD * draw.normal(size=(seeds, 1))
    right = (seen < shift).astype(np.float64)
    right[lost] = draw.random((int(lost.sum()), ITEMS)) < low
    return right


def judged(name: str, seeds: int, number: int) -> Counter[str]:
    """Return what is right and wrong in one study of a case."""
    points = CASES[name]
    methods = study(points, seeds, np.random.default_rng((number, seeds, len(points))))
    found: Counter[str] = Counter(methods=len(methods))
    for one in methods:
        low, high = retention_limits(one.position.retention, one.base, FLOOR, 0.95)
        found["limits missed"] += not low <= one.law.median <= high
        found["regions missed"] += not _inside(one)
    pairs = [(a, b) for a in range(len(points)) for b in range(len(points)) if a != b]
    values = holm([domination(methods[a].position, methods[b].position, MARGIN) for a, b in pairs])
    said = [pair for pair, value in zip(pairs, values, strict=True) if value <= ERROR]
    true = [(a, b) for a, b in pairs if _dominates(points[a], points[b])]
    found["falsely dominated"] = any(pair not in true for pair in said)
    behind = {b for _, b in true}
    found["found"] = len(behind & {b for pair, b in said if (pair, b) in true})
    found["behind"] = len(behind)
    return found


def _dominates(first: Point, second: Point) -> bool:
    no_worse = first.gain >= second.gain - MARGIN and first.retention >= second.retention - MARGIN
    is_more = first.gain > second.gain or first.retention > second.retention
    return no_worse and is_more


def _inside(one: Drawn) -> bool:
    """Return True if the joint region has the mean over all seeds."""
    region = joint_region(one.position, 0.95)
    if region is None:
        return True
    kept = 1 - one.law.lost
    off = np.array([
        kept * one.law.retention - one.position.retention.mean,
        kept * one.law.gain - one.position.gain.mean,
    ])  # fmt: skip
    matrix = np.array([[region.retention, region.joint], [region.joint, region.gain]])
    return bool(off @ np.linalg.pinv(matrix) @ off <= 1)


def total(name: str, seeds: int, studies: int) -> Counter[str]:
    """Return the sums over the studies of a case."""
    found: Counter[str] = Counter()
    for number in range(studies):
        found.update(judged(name, seeds, number))
    return found


def lines(studies: int) -> Iterator[str]:
    """Yield the table of all cases."""
    yield "| case | seeds | limits missed | regions missed | falsely dominated | found |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for name in CASES:
        for seeds in (5, 10):
            found = total(name, seeds, studies)
            missed = (found[one] / found["methods"] for one in ("limits missed", "regions missed"))
            shares = [f"{one:.3f}" for one in (*missed, found["falsely dominated"] / studies)]
            power = f"{found['found'] / found['behind']:.3f}" if found["behind"] else "–"
            yield f"| {name} | {seeds} | {' | '.join(shares)} | {power} |"


if __name__ == "__main__":
    for line in lines(int(sys.argv[1]) if sys.argv[1:] else 400):
        print(line)
