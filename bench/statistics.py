"""Simulations of the statistics: `python -m bench.statistics [STUDIES]`.

Without an argument it simulates 2,000 studies per row and writes the tables to
`docs/reference/simulations.md`; with a number it prints the tables of that many studies.
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from adaptlab.comparisons.verdict import verdicts
from adaptlab.statistics import (
    PairedDifference,
    Scores,
    holm,
    mean_interval,
    paired_difference,
    seed_interval,
)
from adaptlab.statistics.counts import Remembered
from bench.simulated import (
    World,
    alike,
    crossed,
    fixed,
    hard_items,
    logit_normal,
    lottery,
    normal_seeds,
    opposed,
    skewed_seeds,
    steps,
    study,
)

STUDIES = 2000
PROCESSES = 4
DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "simulations.md"
DESIGNS = ((3, 500), (3, 3200), (5, 500), (10, 500))

AWAY_FROM_BORDERS: Mapping[str, World] = {
    "all alike, 50 %": alike(0.5),
    "all alike, 90 %": alike(0.9),
    "hard items, 80 %": hard_items(0.8, 1),
    "seeds agree on every item, 70 %": fixed(0.7),
    "seeds normal, 80 % ± 1": normal_seeds(0.8, 0.01),
    "seeds normal, 80 % ± 5": normal_seeds(0.8, 0.05),
    "seeds normal, 50 % ± 10": normal_seeds(0.5, 0.1),
    "seeds and items (probit 0.5; 0.3; 1)": crossed(0.5, 0.3, 1),
    "seeds and items (probit 1; 0.1; 2)": crossed(1.0, 0.1, 2),
    "seeds and items (probit 1.2; 0.5; 0.5)": crossed(1.2, 0.5, 0.5),
    "skewed seeds, Beta(4, 2)": skewed_seeds(4, 2),
    "skewed seeds, Beta(9, 1)": skewed_seeds(9, 1),
}
AT_BORDERS: Mapping[str, World] = {
    "all alike, 0 %": alike(0.0),
    "all alike, 0.01 %": alike(0.0001),
    "all alike, 0.1 %": alike(0.001),
    "all alike, 1 %": alike(0.01),
    "all alike, 99 %": alike(0.99),
    "all alike, 99.9 %": alike(0.999),
    "all alike, 100 %": alike(1.0),
    "seeds agree on every item, 99.8 %": fixed(0.998),
    "hard items, 0.1 %": hard_items(0.001, 10),
    "skewed seeds, Beta(30, 1)": skewed_seeds(30, 1),
    "skewed seeds, Beta(1, 300)": skewed_seeds(1, 300),
}
NOT_COVERED: Mapping[str, World] = {
    "very skewed seeds, Beta(0.5, 9.5)": skewed_seeds(0.5, 9.5),
    "1 seed in 5 fails": lottery(0.2),
    "1 seed in 2 fails": lottery(0.5),
}
PAIRS = {
    name: AWAY_FROM_BORDERS[name]
    for name in (
        "all alike, 90 %",
        "hard items, 80 %",
        "seeds normal, 80 % ± 5",
        "seeds and items (probit 1; 0.1; 2)",
        "skewed seeds, Beta(9, 1)",
    )
}
EQUAL: Mapping[str, tuple[World, bool]] = {
    "all alike, 80 %": (alike(0.8), False),
    "hard items, 80 %": (hard_items(0.8, 1), False),
    "seeds normal, 80 % ± 5": (normal_seeds(0.8, 0.05), False),
    "the same seeds, normal, 80 % ± 5": (normal_seeds(0.8, 0.05), True),
    "seeds and items (probit 1; 0.1; 2)": (crossed(1.0, 0.1, 2), False),
    "skewed seeds, Beta(9, 1)": (skewed_seeds(9, 1), False),
    "all at 0.1 %": (alike(0.001), False),
    "1 seed in 5 fails": (lottery(0.2), False),
    "1 seed in 2 fails": (lottery(0.5), False),
}
TIGHT = normal_seeds(0.8, 0.01)
UNEQUAL: Mapping[str, tuple[tuple[World, ...], bool]] = {
    # tables in which all methods have the same mean over all seeds; the flag shares the seeds
    "five at 80 ± 1 %, one 100 % on 4 seeds of 5": ((*[TIGHT] * 5, lottery(0.2, 1.0)), False),
    "five at 90 ± 1 %, one 100 % on 9 seeds of 10": (
        (*[normal_seeds(0.9, 0.01)] * 5, lottery(0.1, 1.0)), False,
    ),
    "five at 50 ± 1 %, one 100 % on half of its seeds": (
        (*[normal_seeds(0.5, 0.01)] * 5, lottery(0.5, 1.0)), False,
    ),
    "a pair: log-odds' deviation 0 and 1.5, mean 80 %": (
        (alike(0.8), logit_normal(0.8, 1.5)), False,
    ),
    "a pair: log-odds' deviation 0 and 1.5, mean 99 %": (
        (alike(0.99), logit_normal(0.99, 1.5)), False,
    ),
    "six: log-odds' deviations 0, 0, 0, 1.5, 1.5, 3, mean 80 %": (
        (*[alike(0.8)] * 3, *[logit_normal(0.8, 1.5)] * 2, logit_normal(0.8, 3)), False,
    ),
    "one never fails at 30 %, one 100 % on 3 seeds of 10": (
        (alike(0.3), lottery(0.7, 1.0)), False,
    ),
    "five at 2 %, one 100 % on 1 seed of 50": ((*[alike(0.02)] * 5, lottery(0.98, 1.0)), False),
    "three at 72 %, three 90 % on 4 seeds of 5": (
        (*[alike(0.72)] * 3, *[lottery(0.2, 0.9)] * 3), False,
    ),
    "partial failures: 80 %; 95 or 20 %; 60 or 100 %": (
        (alike(0.8), steps((0.8, 0.95), (0.2, 0.2)), steps((0.5, 0.6), (0.5, 1.0))) * 2, False,
    ),
    "worst pair found by search, 5 seeds": (
        (steps((0.536, 1.0), (0.464, 0.0)), steps((0.47, 1.0), (0.53, 0.0124))), False,
    ),
    "worst pair found by search, 7 seeds": (
        (alike(0.504), steps((0.504, 1.0), (0.496, 0.0))), False,
    ),
    "six equal lotteries, 1 seed in 2 fails": ((lottery(0.5, 1.0),) * 6, False),
    "heavy tails: Beta(0.5, 0.5) against 50 %": ((skewed_seeds(0.5, 0.5), alike(0.5)) * 3, False),
    "opposed lotteries on the same seeds": ((opposed(flipped=False), opposed(flipped=True)), True),
}  # fmt: skip
UNSEEN: Mapping[str, World] = {
    "mean 99 %, log-odds' deviation 1.5": logit_normal(0.99, 1.5),
    "mean 2 %, log-odds' deviation 1.5": logit_normal(0.02, 1.5),
    "1 seed in 10 fails": lottery(0.1, 1.0),
    "1 seed in 5 fails": lottery(0.2),
    "1 seed in 2 fails": lottery(0.5),
    "very skewed seeds, Beta(0.5, 9.5)": skewed_seeds(0.5, 9.5),
}
UNSEEN_PAIRS = {
    "80 ± 1 % and 100 % on 4 seeds of 5": (TIGHT, lottery(0.2, 1.0)),
    "log-odds' deviations 0 and 1.5, mean 80 %": (alike(0.8), logit_normal(0.8, 1.5)),
    "normal, 80 ± 1 % and 80 ± 5 %": (TIGHT, normal_seeds(0.8, 0.05)),
    "0 % and 100 % on 3 seeds of 10": (alike(0.0), lottery(0.7, 1.0)),
}
UNEQUAL_DESIGNS = (3, 5, 10)
UNEQUAL_ITEMS = 1000
METHODS = 6
POWER_SEEDS = (3, 5, 10, 20)
POWER_GAPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
POWER_ITEMS = 3200
POWER_COMPARISONS = 15


def coverage(world: World, seeds: int, items: int, studies: int = STUDIES) -> float:
    """Return the share of 95 % intervals that contain the mean."""
    hits = 0
    for number in range(studies):
        (scores,) = study({"method": world}, seeds, items, number)
        interval = mean_interval(scores)
        hits += interval.low <= world.truth <= interval.high
    return hits / studies


def counts_coverage(world: World, seeds: int, items: int, studies: int = STUDIES) -> float:
    """Return the coverage of the interval from counts alone."""
    hits = 0
    for number in range(studies):
        (scores,) = study({"method": world}, seeds, items, number)
        correct = [round(row.sum()) for row in scores.matrix()]
        interval = seed_interval(correct, [items] * seeds)
        hits += interval.low <= world.truth <= interval.high
    return hits / studies


def difference_coverage(world: World, seeds: int, items: int, studies: int = STUDIES) -> float:
    """Return the share of equal methods' intervals that contain zero."""
    hits = 0
    for number in range(studies):
        first, second = study({"a": world, "b": world}, seeds, items, number)
        difference = paired_difference(first, second)
        hits += difference.seen_low <= 0 <= difference.seen_high
    return hits / studies


def every_pair(table: Sequence[Scores]) -> list[PairedDifference]:
    """Return the differences of all pairs of a table's methods.

    Each is counted once.
    """
    counting = Remembered()
    return [
        paired_difference(first, second, counting=counting)
        for first, second in itertools.combinations(table, 2)
    ]


def false_better(
    world: World, seeds: int, items: int, studies: int = STUDIES, same_seeds: bool = False
) -> float:
    """Return the share of tables of equal methods with a false "better"."""
    worlds = {f"method {number}": world for number in range(METHODS)}
    wrong = 0
    for number in range(studies):
        table = study(worlds, seeds, items, number, same_seeds)
        findings = verdicts(every_pair(table))
        wrong += any(verdict.finding in ("better", "worse") for verdict in findings)
    return wrong / studies


def false_order(name: str, seeds: int, studies: int = STUDIES) -> tuple[float, float]:
    """Return the shares of tables of equal means with any order.

    The first is by the crossed analysis alone, as until 2026, the second by the verdicts.
    """
    worlds, same_seeds = UNEQUAL[name]
    named = {f"method {place}": world for place, world in enumerate(worlds)}
    before = after = 0
    for number in range(studies):
        table = study(named, seeds, UNEQUAL_ITEMS, number, same_seeds)
        pairs = every_pair(table)
        before += any(p <= 0.05 for p in holm([pair.seen_p or 0.0 for pair in pairs]))
        after += any(verdict.finding in ("better", "worse") for verdict in verdicts(pairs))
    return before / studies, after / studies


def all_seeds_coverage(world: World, seeds: int, studies: int = STUDIES) -> tuple[float, float]:
    """Return coverage of the mean: over seeds like these, and all."""
    seen = everything = 0
    for number in range(studies):
        (scores,) = study({"method": world}, seeds, UNEQUAL_ITEMS, number)
        interval = mean_interval(scores)
        seen += interval.low <= world.truth <= interval.high
        low, high = interval.all_seeds_low or 0.0, interval.all_seeds_high or 1.0
        everything += low <= world.truth <= high
    return seen / studies, everything / studies


def pair_coverage(
    worlds: tuple[World, World], seeds: int, studies: int = STUDIES
) -> tuple[float, float]:
    """Return coverage of the difference of two methods."""
    truth = worlds[0].truth - worlds[1].truth
    seen = everything = 0
    for number in range(studies):
        first, second = study({"a": worlds[0], "b": worlds[1]}, seeds, UNEQUAL_ITEMS, number)
        difference = paired_difference(first, second)
        seen += difference.seen_low <= truth <= difference.seen_high
        everything += difference.low <= truth <= difference.high
    return seen / studies, everything / studies


def decided_in_range(gap: float, deviation: float, seeds: int, studies: int) -> dict[str, float]:
    """Return the shares of undecided pairs by outcome.

    A pair is called hopeless, or gets a range. It is decided if a fresh study with the upper number
    of seeds (64 if the range is open) decides it, counted for each kind of range.
    """
    worlds = {
        "a": normal_seeds(0.5 + gap / 2, deviation),
        "b": normal_seeds(0.5 - gap / 2, deviation),
    }
    counted = dict.fromkeys(("not known", "hopeless", "range", "decided"), 0)
    for number in range(studies):
        first, second = study(worlds, seeds, UNEQUAL_ITEMS, number)
        (found,) = verdicts([paired_difference(first, second)])
        if found.finding != "not_known":
            continue
        counted["not known"] += 1
        if found.more_seeds is None:
            counted["hopeless"] += 1
            continue
        counted["range"] += 1
        most = 64 if found.more_seeds_high is None else seeds + found.more_seeds_high
        first, second = study(worlds, most, UNEQUAL_ITEMS, 100_000 + number)
        (later,) = verdicts([paired_difference(first, second)])
        counted["decided"] += later.finding != "not_known"
    return {name: count / studies for name, count in counted.items()}


def said_alike(seeds: int, studies: int = STUDIES) -> tuple[float, float]:
    """Return how often 0 % and a lottery of 3 in 10 "differ by < 1 point".

    The first figure is by the rule for means until 2026, the second by the rule over all seeds.
    """
    worlds = {"a": alike(0.0), "b": lottery(0.7, 1.0)}
    before = after = 0
    for number in range(studies):
        first, second = study(worlds, seeds, UNEQUAL_ITEMS, number)
        difference = paired_difference(first, second)
        (verdict,) = verdicts([difference])
        before += difference.seen_low >= -0.01 and difference.seen_high <= 0.01
        after += verdict.reason == "within_margin"
    return before / studies, after / studies


def false_better_among_unequal(seeds: int, items: int, studies: int = STUDIES) -> float:
    """Return the share of tables with a false claim, of unequal methods.

    Three methods are equal and three worse. Claims that reverse the order are false too.
    """
    levels = (0.8, 0.8, 0.8, 0.7, 0.5, 0.1)
    worlds = {f"{place}": normal_seeds(level, 0.02) for place, level in enumerate(levels)}
    wrong = 0
    for number in range(studies):
        table = study(worlds, seeds, items, number)
        findings = verdicts(every_pair(table))
        wrong += any(
            verdict.finding == "worse"
            or (verdict.finding == "better" and int(verdict.pair.second) <= 2)
            for verdict in findings
        )
    return wrong / studies


def power(gap: float, seeds: int, deviation: float, studies: int = STUDIES) -> float:
    """Return how often a method better by `gap` is called better.

    It is one of 15 comparisons (p <= 0.05 / 15).
    """
    worlds = {
        "a": normal_seeds(0.5 + gap / 2, deviation),
        "b": normal_seeds(0.5 - gap / 2, deviation),
    }
    claims = 0
    for number in range(studies):
        first, second = study(worlds, seeds, POWER_ITEMS, number)
        result = paired_difference(first, second)
        p_value = max(result.seen_p or 1.0, result.unseen_p)
        found_it = p_value <= 0.05 / POWER_COMPARISONS and (result.p_value or 1.0) <= 0.05
        claims += found_it and result.difference > 0
    return claims / studies


def table(
    heads: Iterable[str], rows: Mapping[str, list[Callable[[int], float]]], studies: int
) -> str:
    """Return a table of shares, computed in `PROCESSES` processes."""
    names = list(heads)
    lines = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    with ProcessPoolExecutor(PROCESSES) as pool:
        waiting = {
            name: [pool.submit(measure, studies) for measure in row] for name, row in rows.items()
        }
        for name, row in waiting.items():
            cells = [f"{one.result():.3f}" for one in row]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def designs(first: str) -> list[str]:
    """Return the head of a table with one column per design."""
    return [first, *(f"{seeds} seeds, {items:,} items" for seeds, items in DESIGNS)]


# partial objects travel to the other processes only if their functions can be named there, and a
# world's cannot: each cell is named instead and looked up on the other side.
GROUPS = {"away": AWAY_FROM_BORDERS, "at": AT_BORDERS, "not": NOT_COVERED, "pairs": PAIRS}
MEASURES = {
    "coverage": coverage, "counts": counts_coverage, "difference": difference_coverage,
}  # fmt: skip


def cell(measure: str, group: str, name: str, seeds: int, items: int, studies: int) -> float:
    """Compute one figure of a coverage table."""
    return MEASURES[measure](GROUPS[group][name], seeds, items, studies)


def equal_cell(name: str, seeds: int, items: int, studies: int) -> float:
    """Compute one figure of the table of false claims."""
    world, same_seeds = EQUAL[name]
    return false_better(world, seeds, items, studies, same_seeds)


def coverage_table(measure: str, group: str, studies: int) -> str:
    """Return a table with a row per world and a column per design."""
    rows = {
        name: [partial(cell, measure, group, name, seeds, items) for seeds, items in DESIGNS]
        for name in GROUPS[group]
    }
    return table(designs("seeds and items"), rows, studies)


def false_table(studies: int) -> str:
    """Return the table of false claims in tables of six methods."""
    rows: dict[str, list[Callable[[int], float]]] = {
        name: [partial(equal_cell, name, seeds, items) for seeds, items in DESIGNS]
        for name in EQUAL
    }
    rows["three equal, three worse (80, 70, 50, 10 % ± 2)"] = [
        partial(false_better_among_unequal, seeds, items) for seeds, items in DESIGNS
    ]
    return table(designs("six methods"), rows, studies)


def before_and_after(found: tuple[float, float]) -> str:
    """Format two shares in one cell."""
    return f"{found[0]:.3f} → {found[1]:.3f}"


def two_shares(rows: Mapping[str, list[tuple[float, float]]]) -> str:
    """Return a table of pairs of shares by the number of seeds."""
    names = ["", *(f"{seeds} seeds" for seeds in UNEQUAL_DESIGNS)]
    lines = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    lines += [
        f"| {name} | {' | '.join(before_and_after(found) for found in row)} |"
        for name, row in rows.items()
    ]
    return "\n".join(lines)


def unequal_tables(studies: int) -> Iterator[str]:
    """Return tables of methods with equal means and unlike seeds."""
    fewer = max(1, studies // 10)
    yield (
        '**False "better" where means over all seeds are equal and seeds are not alike**: '
        f"the crossed analysis alone → the verdicts ({fewer:,} studies, {4 * fewer:,} of a pair)"
    )
    yield two_shares(
        {
            name: [
                false_order(name, seeds, fewer if len(worlds) > 2 else 4 * fewer)
                for seeds in UNEQUAL_DESIGNS
            ]
            for name, (worlds, _) in UNEQUAL.items()
        }
    )
    yield "**Coverage of a mean**: seeds like those run → over all seeds"
    yield two_shares(
        {
            name: [all_seeds_coverage(world, seeds, fewer) for seeds in UNEQUAL_DESIGNS]
            for name, world in UNSEEN.items()
        }
    )
    yield "**Coverage of a difference**: seeds like those run → over all seeds"
    yield two_shares(
        {
            name: [pair_coverage(worlds, seeds, fewer) for seeds in UNEQUAL_DESIGNS]
            for name, worlds in UNSEEN_PAIRS.items()
        }
    )
    yield (
        '**"They differ by less than 1 point"** of 0 % and of 100 % on 3 seeds of 10: '
        "of the means → over all seeds"
    )
    yield two_shares({"said": [said_alike(seeds, fewer) for seeds in UNEQUAL_DESIGNS]})


def power_table(deviation: float, studies: int) -> str:
    """Return the table of power, by size of difference and seeds."""
    rows = {
        f"{seeds} seeds": [partial(power, gap, seeds, deviation) for gap in POWER_GAPS]
        for seeds in POWER_SEEDS
    }
    gaps = [f"{100 * gap:g} point{'' if gap == 0.01 else 's'}" for gap in POWER_GAPS]
    return table(["", *gaps], rows, studies)


def tables_of(studies: int) -> Iterator[str]:
    """Yield headings and tables, each when it is computed."""
    fewer = max(1, studies // 4)
    yield (
        f"{studies:,} simulated studies per figure ({fewer:,} for power); a figure of "
        f"0.95 has an error of about ± {1.96 * (0.95 * 0.05 / studies) ** 0.5:.3f}."
    )
    yield "**Interval for a mean: coverage away from 0 and 1** (promised: 0.94 to 0.97)"
    yield coverage_table("coverage", "away", studies)
    yield (
        '**False "better": share of tables of six methods with any false claim** '
        "(promised: at most 0.05)"
    )
    yield false_table(studies)
    yield "**Interval for a mean: coverage near 0 and 1** (promised: at least 0.94)"
    yield coverage_table("coverage", "at", studies)
    yield "**Interval for a mean: not promised**"
    yield coverage_table("coverage", "not", studies)
    yield from unequal_tables(studies)
    yield "**Interval for a difference of two equal methods**"
    yield coverage_table("difference", "pairs", studies)
    yield "**Interval from counts alone (`seed_interval`)**"
    yield coverage_table("counts", "pairs", studies)
    yield "**Power: seeds that deviate by 1 point**, 3,200 items, one of 15 comparisons"
    yield power_table(0.01, fewer)
    yield "**Power: seeds that deviate by 5 points**, 3,200 items, one of 15 comparisons"
    yield power_table(0.05, fewer)


def main(arguments: list[str]) -> int:
    """Print the tables; without an argument, also write the page."""
    studies = int(arguments[0]) if arguments else STUDIES
    parts: list[str] = []
    for part in tables_of(studies):
        print(part, end="\n\n", flush=True)
        parts.append(part)
    if not arguments:
        start, end = "<!-- figures -->\n", "\n<!-- end of figures -->"
        text, tables = DOCUMENT.read_text(), "\n\n".join(parts)
        before, after = text.split(start)[0], text.split(end)[1]
        DOCUMENT.write_text(f"{before}{start}\n{tables}\n{end}{after}")
        print(f"written to {DOCUMENT}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
