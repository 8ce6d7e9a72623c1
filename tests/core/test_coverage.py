"""Promises of the statistics, checked on simulated studies.

The long version is `python -m bench statistics`; its table is in docs/reference/simulations.md.
"""

from collections import Counter

import pytest

from adaptlab.statistics import mean_interval, seed_interval
from bench.laws import Items, Law, lottery, normal, study, typical
from bench.statistics import judged

STUDIES = 60
TOLERATED = 0.05 + 2 * (0.05 * 0.95 / STUDIES) ** 0.5
"""Two standard errors above the promise, for so few studies."""


def total(name: str, seeds: int) -> Counter[str]:
    """Return the sums over the studies of a case."""
    found: Counter[str] = Counter()
    for number in range(STUDIES):
        found.update(judged(name, seeds, number))
    return found


@pytest.mark.long("many simulated studies", but=1)
@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        ("six equal, 80 ± 3", 5),
        ("six equal, logit t₃", 8),
        ("one steady at 80, five 95 or 0 on 55 %", 5),
        ("five at 92 ± .5, one 99 or 60 on 20 %", 8),
        ("98 where 52 % diverge, a steady 80", 8),
        ("six equal, seeds agree on 97 %, 200 items", 5),
        ("six equal, 50 clusters of 20", 5),
        ("Macro-F1: six equal, 200 items", 5),
        ("chrF: six equal, 50 clusters of 20", 5),
    ],
)
def test_a_table_is_false_in_one_of_twenty_at_most(name: str, seeds: int) -> None:
    found = total(name, seeds)
    assert found["lost"] / STUDIES <= TOLERATED
    assert found["falsely ordered"] / STUDIES <= TOLERATED
    assert found["limits missed"] / found["limits"] <= TOLERATED
    assert found["differences missed"] / found["differences"] <= TOLERATED


@pytest.mark.long("many simulated studies", but=1)
@pytest.mark.parametrize(
    ("name", "seeds", "least"),
    [
        ("best of six by 10 points, ± 3", 5, 0.65),
        ("best of six by 20 points, ± 8", 8, 0.85),
        ("97 and four at 0", 5, 0.95),
    ],
)
def test_what_is_true_is_said(name: str, seeds: int, least: float) -> None:
    assert total(name, seeds)["single"] / STUDIES >= least


@pytest.mark.parametrize("gap", ["5 points apart, ± 3", "10 points apart, ± 8"])
def test_a_pair_is_ordered_about_as_often_as_by_a_paired_t_test(gap: str) -> None:
    found = total(f"a pair {gap}", 5)
    assert found["single"] >= 0.8 * found["t"]


def covered(law: Law, seeds: int, *, by_counts: bool = False) -> float:
    """Return how often the limits hold the median of a law."""
    import numpy as np

    truth, hits = typical(law), 0
    for number in range(STUDIES):
        generator = np.random.Generator(np.random.Philox(key=number))
        (scores,) = study([law], seeds, Items(500), generator)
        if by_counts:
            right = scores.bits(scores.seeds).sum(axis=1).tolist()
            found = seed_interval(right, [scores.items] * seeds)
        else:
            found = mean_interval(scores)
        hits += found.low <= truth <= found.high
    return hits / STUDIES


@pytest.mark.parametrize("law", [normal(0.8, 0.05), lottery(0.95, 0.0, 0.3)])
@pytest.mark.parametrize("by_counts", [False, True])
def test_limits_hold_a_typical_seed(law: Law, by_counts: bool) -> None:
    assert covered(law, 5, by_counts=by_counts) >= 1 - TOLERATED
