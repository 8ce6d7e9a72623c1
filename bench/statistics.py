"""How often verdicts are false, and how often they say what is true.

Each case has laws with a known truth; studies are drawn from it and go through the functions of the
product: the best set, ordered pairs, limits of scores, of differences and of the chosen method.
"""

import functools
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adaptlab.comparisons.comparison import ComparisonCell, compare
from adaptlab.comparisons.verdict import Verdict
from adaptlab.plugins.metric import METRICS, metrics
from adaptlab.statistics.pairs import PairedDifference
from adaptlab.statistics.scores import Scores
from bench.figures import Section
from bench.laws import (
    Items,
    Law,
    beta,
    chosen,
    difference,
    diverging,
    heavy,
    logit_heavy,
    lottery,
    normal,
    skewed,
    study,
    typical,
    typical_metric,
    wins,
)
from bench.verdict_summary import Line, summary

TITLE = "Verdicts"
STUDIES = 400
PROCESSES = 2
DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "simulations.md"
BEGIN, END = "<!-- grid -->", "<!-- end of grid -->"
FEWEST = 20
"""A share of fewer cases is left out."""
EQUAL = 0.002
"""Probabilities of a win this near to one half are ties."""


@dataclass(frozen=True)
class Case:
    """A table of methods; the first law is the best unless all are equal."""

    name: str
    laws: tuple[Law, ...]
    items: Items = field(default_factory=Items)
    seeds: tuple[int, ...] = (3, 5, 8, 15)

    @cached_property
    def wins(self) -> list[list[float]]:
        """P(a seed of one beats a seed of the other)."""
        return [[wins(one, other) for other in self.laws] for one in self.laws]

    @cached_property
    def best(self) -> list[int]:
        """The methods that no other beats more often than not."""
        return [
            i for i, _ in enumerate(self.laws) if all(row[i] <= 0.5 + EQUAL for row in self.wins)
        ]


def cases() -> Iterator[Case]:
    """Yield the cases in which something could be said falsely."""
    for of_kind in KINDS.values():
        yield from of_kind()


def equal() -> Iterator[Case]:
    """Yield tables of methods of one law."""
    yield Case("six equal, 80 ± 3", (normal(0.8, 0.03),) * 6)
    yield Case("twelve equal, 80 ± 3", (normal(0.8, 0.03),) * 12)
    yield Case("a pair, equal", (normal(0.8, 0.03),) * 2)
    yield Case("six equal, t₃", (heavy(0.8, 0.02),) * 6)
    yield Case("six equal, logit t₃", (logit_heavy(0.85, 1.2),) * 6)
    yield Case("six equal, skewed", (skewed(0.8, 0.05),) * 6)
    yield Case("six equal, Beta(9, 1)", (beta(9, 1),) * 6)
    yield Case("six equal, 1 seed in 20 fails", (lottery(0.92, 0.2, 0.05),) * 6)
    yield Case("six equal, 3 seeds in 10 at 40", (lottery(0.92, 0.4, 0.3),) * 6)


def unlike() -> Iterator[Case]:
    """Yield tables in which some methods fail or vary more than others."""
    steady = normal(0.8, 0.01)

    def beside(best: Law, other: Law, count: int = 5) -> tuple[Law, ...]:
        return best, *(other,) * count

    yield Case("five at 80 ± 3, one ± 0.5", beside(normal(0.801, 0.005), normal(0.8, 0.03)))
    yield Case("five at 80 ± 10, one ± 0.5", beside(normal(0.802, 0.005), normal(0.8, 0.1)))
    yield Case("eleven at 80 ± 6, one ± 2", beside(normal(0.802, 0.02), normal(0.8, 0.06), 11))
    for failing in (0.55, 0.51):
        name = f"one steady at 80, five 95 or 0 on {100 * failing:.0f} %"
        yield Case(name, beside(steady, lottery(0.95, 0, failing)))
    yield Case("one steady at 80, two 95 or 0 on 51 %", beside(steady, lottery(0.95, 0, 0.51), 2))
    yield Case("one steady at 80, 95 or 0 on 51 %", beside(steady, lottery(0.95, 0, 0.51), 1))
    yield Case("70, or 100 on 40 % and 60 else", (normal(0.7, 0.01), lottery(0.995, 0.6, 0.6)))
    yield Case("one 95 or 0 on 45 %, five at 80", beside(lottery(0.95, 0, 0.45), steady))
    yield Case("one 95 or 60 on 49 %, a steady 80", beside(lottery(0.95, 0.6, 0.49), steady, 1))
    depths = (lottery(0.9, 0.1, 0.2), steady, lottery(0.85, 0.6, 0.3), normal(0.75, 0.05))
    yield Case("unequal depths", (lottery(0.95, 0.7, 0.45, 0.02), *depths))
    five = "five at 92 ± .5, one 99 or 60 on 20 %"
    yield Case(five, beside(lottery(0.99, 0.6, 0.2), normal(0.92, 0.005)))
    yield Case("98 where 30 % diverge, a steady 80", (diverging(0.98, 0.3), steady))
    yield Case("98 where 52 % diverge, a steady 80", (steady, diverging(0.98, 0.52)))


def of_items() -> Iterator[Case]:
    """Yield tables in which items or clusters differ by chance."""
    for number in (50, 200, 1000, 5000, 20000):
        laws = (normal(0.8, 0.001),) * 6
        name = f"six equal, seeds agree on 97 %, {number:,} items"
        yield Case(name, laws, Items(number, 0.97), (5, 10))
    for size, groups in ((5, 200), (10, 100), (20, 50), (50, 20), (20, 20)):
        laws = (normal(0.75, 0.005),) * 6
        name = f"six equal, {groups} clusters of {size}"
        yield Case(name, laws, Items(size * groups, 0.9, size), (5, 10))


def of_metrics() -> Iterator[Case]:
    """Yield tables by other metrics, of equal methods and with a best."""
    for metric in metrics():
        if metric.needs in ("base", "endings", "choices"):
            continue  # no task is ordered by it
        for items in (Items(200, 0.9), Items(1000, 0.9, 20)):
            kind = "200 items" if items.cluster == 1 else "50 clusters of 20"
            shown = replace(items, metric=metric.name)
            yield Case(
                f"{metric.title}: six equal, {kind}", (normal(0.75, 0.005),) * 6, shown, (5, 10)
            )
        laws = (normal(0.9, 0.03), *(normal(0.8, 0.03),) * 5)
        yield Case(f"{metric.title}: best of six", laws, Items(metric=metric.name), (5, 10))


def of_trials() -> Iterator[Case]:
    """Yield tables whose seeds choose among equally or unequally many trials."""
    for validation in (50, 500):
        name = f"six equal, best of 6 trials on {validation} items"
        yield Case(name, (chosen(0.7, 0.1, 6, validation),) * 6)
    trials = (12, 6, 6, 3, 1, 1)
    yield Case("12, 6, 6, 3, 1 and 1 trials", tuple(chosen(0.7, 0.1, n, 200) for n in trials))
    alike = (chosen(0.75, 0.05, 6, 50), *(chosen(0.75, 0.05, n, 500) for n in (6, 1, 1)))
    yield Case("50 against 500 validation items", alike)


def powerful() -> Iterator[Case]:
    """Yield cases in which one method is the best by a margin."""
    for gap, deviation in ((0.05, 0.01), (0.05, 0.03), (0.1, 0.03), (0.1, 0.08), (0.2, 0.08)):
        laws = (normal(0.7 + gap, deviation), normal(0.7, deviation))
        yield Case(f"a pair {100 * gap:g} points apart, ± {100 * deviation:g}", laws)
    yield Case("best of six by 10 points, ± 3", (normal(0.9, 0.03), *(normal(0.8, 0.03),) * 5))
    yield Case("best of six by 20 points, ± 8", (normal(0.9, 0.08), *(normal(0.7, 0.08),) * 5))
    yield Case("best of six by 5 points, ± 3", (normal(0.85, 0.03), *(normal(0.8, 0.03),) * 5))
    yield Case("99.9 against 97.4 ± 2", (normal(0.999, 0.0005), normal(0.974, 0.02)))
    yield Case("97 and four at 0", (normal(0.97, 0.02), *(normal(0.0, 0.0),) * 4))


KINDS: Mapping[str, Callable[[], Iterator[Case]]] = {
    "equal methods": equal,
    "unequal or failing": unlike,
    "few or grouped items": of_items,
    "other metrics": of_metrics,
    "chosen among trials": of_trials,
}


@functools.cache
def cases_by_name() -> Mapping[str, Case]:
    """Return all cases; laws cannot be sent to other processes."""
    return {case.name: case for case in (*cases(), *powerful())}


def judged(name: str, seeds: int, number: int) -> Counter[str]:
    """Return what one simulated study got wrong, and what it showed."""
    case = cases_by_name()[name]
    key = zlib.crc32(case.name.encode())
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence((key, seeds, number))))
    rows = study(case.laws, seeds, case.items, generator)
    comparison = compare("simulated", rows)
    cell = comparison.cells[0]
    found: Counter[str] = Counter()
    if case.items.metric is not None:
        return _judged_by_metric(case, rows, cell)
    found["lost"] += all(f"m{i}" not in cell.best for i in case.best)
    found["falsely ordered"] += any(_is_false(case, one) for one in cell.verdicts)
    found["single"] += len(cell.best) == 1
    found["in the set"] += len(cell.best)
    for place, (law, row) in enumerate(zip(case.laws, cell.rows, strict=True)):
        if place < 2:  # the others are like these
            found["limits"] += 1
            found["limits missed"] += (
                not row.score.low - 1e-9 <= typical(law) <= row.score.high + 1e-9
            )
    for one in cell.verdicts[:1]:
        found["differences"] += 1
        found["differences missed"] += not _covers(case, one.pair)
    against = next((row.against_best for row in cell.rows if row.against_best is not None), None)
    if against is not None:
        found["leader"] += 1
        found["leader missed"] += not _covers(case, against)
    if cell.chosen is not None:
        found["chosen"] += 1
        law = case.laws[int(cell.chosen.label[1:])]
        score = cell.chosen.score
        found["chosen missed"] += not score.low <= typical(law) <= score.high
    found["t"] += _paired_t(rows)
    return found


def _judged_by_metric(case: Case, rows: Sequence[Scores], cell: ComparisonCell) -> Counter[str]:
    """Return what an order by a metric got wrong."""
    order, name = cell.by_metric, case.items.metric
    assert order is not None
    assert name is not None
    found: Counter[str] = Counter()
    found["lost"] += all(f"m{i}" not in order.best for i in case.best)
    found["single"] += len(order.best) == 1
    found["in the set"] += len(order.best)
    truths = {f"m{i}": typical_metric(law, name) for i, law in enumerate(case.laws)}
    for row in order.rows[:2]:
        if row.low is not None and row.high is not None:
            found["limits"] += 1
            found["limits missed"] += not row.low <= truths[row.label] <= row.high
    metric = METRICS.get(name)
    scaled = {label: float(metric.scaled(np.array(value))) for label, value in truths.items()}
    against = [row.against_best for row in cell.rows if row.against_best is not None]
    for kind, pairs in (("leader", against), ("differences", [one.pair for one in cell.verdicts])):
        for pair in pairs[:1]:
            by = scaled[pair.first] - scaled[pair.second]
            found[kind] += 1
            found[f"{kind} missed"] += not pair.low <= by <= pair.high
    found["falsely ordered"] += any(_is_false(case, one) for one in cell.verdicts)
    first, second = (metric.scaled(np.array(row.measured)) for row in rows[:2])
    found["t"] += _is_t(first, second)
    return found


def _is_false(case: Case, verdict: Verdict) -> bool:
    finding, pair = verdict.finding, verdict.pair
    if finding not in ("better", "worse"):
        return False
    first, second = int(pair.first[1:]), int(pair.second[1:])
    share = case.wins[first][second]
    return share <= 0.5 + EQUAL if finding == "better" else share >= 0.5 - EQUAL


def _covers(case: Case, pair: PairedDifference) -> bool:
    first, second = (case.laws[int(name[1:])] for name in (pair.first, pair.second))
    return pair.low - 1e-9 <= difference(first, second) <= pair.high + 1e-9


def _paired_t(rows: Sequence[Scores]) -> bool:
    """Return True if a paired t-test shows that the first beats the second."""
    return _is_t(*(row.matrix().mean(axis=1) for row in rows[:2]))


def _is_t(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    from scipy.stats import ttest_rel

    if first.size != second.size or first.size < 2 or np.ptp(first - second) == 0:
        return False
    test = ttest_rel(first, second)
    return bool(test.pvalue < 0.05 and test.statistic > 0)


def simulated(case: Case, seeds: int, studies: int, pool: ProcessPoolExecutor) -> Counter[str]:
    """Return the sums over simulated studies."""
    total: Counter[str] = Counter()
    for part in pool.map(partial(judged, case.name, seeds), range(studies), chunksize=10):
        total.update(part)
    return total


def lines(studies: int, word: str = "") -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yield a case, its seeds and its shares, the methods in the set last."""
    with ProcessPoolExecutor(PROCESSES) as pool:
        for case in cases_by_name().values():
            for seeds in case.seeds if word in case.name else ():
                got = simulated(case, seeds, studies, pool)
                of_tables = (
                    got[name] / studies if name in got else None
                    for name in ("lost", "falsely ordered", "single")
                )
                missed = (
                    got[f"{name} missed"] / got[name] if got[name] >= FEWEST else None
                    for name in ("limits", "differences", "leader", "chosen")
                )
                shares = (*of_tables, got["t"] / studies, *missed)
                texts = tuple("–" if share is None else f"{share:.3f}" for share in shares)
                yield case.name, seeds, (*texts, f"{got['in the set'] / studies:.1f}")


def measure() -> Section:
    """Simulate the grid and write its summary into the page of simulations."""
    every = [Line(*line) for line in lines(STUDIES)]
    kinds = {
        kind: [line for line in every if line.name in {case.name for case in some()}]
        for kind, some in KINDS.items()
    }
    powerful_lines = [line for line in every if line.name in {one.name for one in powerful()}]
    text = f"{STUDIES} studies per case.\n\n{summary(kinds, powerful_lines)}"
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
    return Section(TITLE, f"The table is in {DOCUMENT.name}.", ())


def main(arguments: Sequence[str]) -> None:
    """Print the grid: `python -m bench.statistics [STUDIES] [WORDS OF CASES]`."""
    studies = int(arguments[0]) if arguments else STUDIES
    for name, seeds, texts in lines(studies, arguments[1] if len(arguments) > 1 else ""):
        print(f"{name:45} {seeds:3}", *(f"{text:>6}" for text in texts), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
