"""How often the predicted number of more seeds settles an open order.

A study is drawn with the most seeds that a job can have. Its first seeds are the study that was
run; if they leave several methods and a number of more seeds, the order of that many more is
looked at.
"""

import functools
import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import median

import numpy as np

from adaptlab.comparisons.comparison import compare
from adaptlab.statistics.more_seeds import MOST_SEEDS
from adaptlab.statistics.scores import Scores
from bench.laws import Items, normal, study
from bench.statistics import PROCESSES, Case

STUDIES = 400


def cases() -> Iterator[Case]:
    """Yield tables with a best method that few seeds do not show."""
    for gap, deviation in ((0.05, 0.03), (0.05, 0.05), (0.1, 0.08), (0.2, 0.15)):
        laws = (normal(0.7 + gap, deviation), normal(0.7, deviation))
        yield Case(f"a pair {100 * gap:g} points apart, ± {100 * deviation:g}", laws)
    five = (normal(0.8, 0.08),) * 5
    yield Case("best of six by 10 points, ± 8", (normal(0.9, 0.08), *five))
    yield Case("best of six by 5 points, ± 3, 200 items",
               (normal(0.85, 0.03), *(normal(0.8, 0.03),) * 5), Items(200))  # fmt: skip


@functools.cache
def cases_by_name() -> dict[str, Case]:
    """Return all cases; laws cannot be sent to other processes."""
    return {case.name: case for case in cases()}


@dataclass(frozen=True, slots=True)
class Prediction:
    """A number of more seeds, and whether they settled the order."""

    more: int
    is_settled: bool


def predicted(name: str, seeds: int, number: int) -> Prediction | None:
    """Return the prediction of one simulated study, None if it has none."""
    case = cases_by_name()[name]
    key = (zlib.crc32(case.name.encode()), seeds, number)
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
    rows = study(case.laws, MOST_SEEDS, case.items, generator)
    more = compare("simulated", [_first(row, seeds) for row in rows]).cells[0].more_seeds
    if more is None:
        return None
    later = compare("simulated", [_first(row, seeds + more) for row in rows]).cells[0]
    return Prediction(more, len(later.best) == 1)


def _first(row: Scores, seeds: int) -> Scores:
    return row.model_copy(update={"seeds": row.seeds[:seeds], "outcomes": row.outcomes[:seeds]})


def lines(studies: int) -> Iterator[tuple[str, ...]]:
    """Yield a case, its seeds and three figures.

    They are the share of studies with a number, the median number, and the share of these that are
    settled after it.
    """
    with ProcessPoolExecutor(PROCESSES) as pool:
        for name in cases_by_name():
            for seeds in (3, 5, 8):
                asked = functools.partial(predicted, name, seeds)
                got = [one for one in pool.map(asked, range(studies), chunksize=10) if one]
                settled = sum(one.is_settled for one in got) / max(1, len(got))
                middle = median(one.more for one in got) if got else 0
                yield name, str(seeds), f"{len(got) / studies:.2f}", f"{middle:g}", f"{settled:.2f}"


if __name__ == "__main__":
    for line in lines(int(sys.argv[1]) if len(sys.argv) > 1 else STUDIES):
        print(*line, sep=" | ", flush=True)
