"""The set that contains the best method: tests, guards, promises."""

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.core.scoring import drawn

from adaptlab.statistics.best_set import BestSet, of_leaders
from adaptlab.statistics.leads import Lead, lead, straddles
from adaptlab.statistics.samples import Sample, sample_of

Values = NDArray[np.float64]
STUDIES = 300


def seeds_of(values: Values | list[float]) -> Sample:
    """Return a sample whose items are too many to matter."""
    scores = np.asarray(values, dtype=np.float64)
    return Sample(scores, np.full(1000, scores.mean()), 0.0, 1_000_000)


def generator(key: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=key))


@pytest.mark.parametrize("sizes", [(5, 5), (5, 8), (9, 6)])
def test_tests_over_seeds_are_those_of_scipy(sizes: tuple[int, int]) -> None:
    draws = generator(sum(sizes))
    first, second = draws.normal(0.85, 0.03, sizes[0]), draws.normal(0.8, 0.06, sizes[1])
    found = lead(seeds_of(first), seeds_of(second))
    exact = stats.mannwhitneyu(first, second, alternative="greater", method="exact").pvalue
    studentised = stats.brunnermunzel(first, second, alternative="greater").pvalue
    welch = stats.ttest_ind(first, second, equal_var=False, alternative="greater").pvalue
    assert found.ranks == pytest.approx(max(exact, studentised), rel=0.02)
    assert found.two_part == pytest.approx(welch, rel=0.02)


def test_five_seeds_that_all_win_show_a_lead_and_four_do_not() -> None:
    five = lead(seeds_of([0.9, 0.91, 0.92, 0.9, 0.93]), seeds_of([0.5, 0.52, 0.51, 0.5, 0.53]))
    assert five.wins == five.losses == 1 / 32
    assert five.ranks == pytest.approx(1 / math.comb(10, 5))
    assert five.holds(0.01)
    four = lead(seeds_of([0.9, 0.91, 0.92, 0.9]), seeds_of([0.5, 0.52, 0.51, 0.5]))
    assert not four.holds(0.05)


def test_a_near_miss_counts_as_a_win_and_a_failing_seed_does_not() -> None:
    steady = seeds_of([0.8, 0.81, 0.79, 0.8, 0.82, 0.8, 0.79, 0.81])
    near = [0.9, 0.92, 0.86, 0.88, 0.91, 0.84, 0.795, 0.87]
    failing = [*near[:6], 0.0, 0.87]
    assert lead(seeds_of(near), steady).wins == 2**-8
    assert lead(seeds_of([x + 0.2 for x in failing]), steady).wins == pytest.approx(9 / 2**8)


def test_methods_seen_on_both_sides_share_the_luck_of_the_winner() -> None:
    steady = seeds_of([0.8, 0.81, 0.79, 0.8, 0.8])
    assert straddles(seeds_of([0.95, 0.0, 0.94, 0.0, 0.96]), steady)
    assert not straddles(seeds_of([0.83, 0.78, 0.8, 0.79, 0.82]), steady)
    tests = Lead(two_part=1e-6, ranks=0.004, wins=1 / 32, losses=1 / 32)
    assert [tests.holds(0.01, straddling) for straddling in (0, 1, 2)] == [True, True, False]


def test_items_that_all_seeds_share_are_no_lead() -> None:
    """Seeds agree, and 30 of 1,000 items happen to favour one method."""
    base = generator(1).random(1000) < 0.8
    other = base.copy()
    other[np.flatnonzero(~base)[:12]] = True
    other[np.flatnonzero(base)[:8]] = False
    rows = [
        drawn([0.5] * 5, 1000, name).model_copy(
            update={"outcomes": (np.packbits(right).tobytes().hex(),) * 5}
        )
        for name, right in (("a", other), ("b", base))
    ]
    found = BestSet({row.label: sample_of(row) for row in rows})
    assert found.lead("a", "b").ranks < 0.01
    assert found.best == ("a", "b")


def test_a_cycle_has_no_single_best() -> None:
    """Each beats the next, as dice can; then nothing leaves the set."""
    dice = {"a": [2, 4, 9], "b": [1, 6, 8], "c": [3, 5, 7]}
    rows = {name: seeds_of([x / 10 for x in sides] * 60) for name, sides in dice.items()}
    assert set(BestSet(rows).best) == {"a", "b", "c"}


def test_references_are_compared_and_are_not_the_best() -> None:
    found = BestSet(
        {"lora": seeds_of([0.9, 0.91, 0.92, 0.9, 0.93])},
        {"full": seeds_of([0.99, 0.98, 0.99, 0.985, 0.99])},
    )
    assert found.best == ("lora",)
    assert found.beats("full", "lora")


def _normal(mean: float, deviation: float, seeds: int, draws: np.random.Generator) -> Values:
    return draws.normal(mean, deviation, seeds)


def _lottery(failing: float, seeds: int, draws: np.random.Generator) -> Values:
    lost = draws.random(seeds) < failing
    return np.where(lost, 0.0, 0.95) + draws.normal(0, 0.005, seeds)


@pytest.mark.parametrize("seeds", [5, 8])
def test_the_best_is_seldom_lost_to_methods_that_fail_on_most_seeds(seeds: int) -> None:
    """Mann-Whitney alone loses it in a tenth of these tables."""
    draws, lost, unguarded = generator(seeds), 0, 0
    for _ in range(STUDIES):
        rows = {"steady": seeds_of(_normal(0.8, 0.005, seeds, draws))}
        rows |= {f"m{n}": seeds_of(_lottery(0.51, seeds, draws)) for n in range(5)}
        found = BestSet(rows)
        lost += "steady" not in found.best
        unguarded += any(found.lead(f"m{n}", "steady").ranks <= found.tail for n in range(5))
    assert lost / STUDIES <= 0.05
    assert unguarded / STUDIES > 0.07


@pytest.mark.parametrize(("seeds", "least"), [(5, 0.7), (8, 0.97)])
def test_a_best_ten_points_ahead_is_the_only_one_left(seeds: int, least: float) -> None:
    draws, single = generator(10 + seeds), 0
    for _ in range(STUDIES):
        rows = {"best": seeds_of(_normal(0.9, 0.03, seeds, draws))}
        rows |= {f"m{n}": seeds_of(_normal(0.8, 0.03, seeds, draws)) for n in range(5)}
        single += BestSet(rows).best == ("best",)
    assert single / STUDIES >= least


def test_equal_methods_are_seldom_told_apart() -> None:
    draws, wrong = generator(3), 0
    for _ in range(STUDIES):
        rows = {n: seeds_of(_normal(0.8, 0.03, 5, draws)) for n in ("a", "b")}
        found = BestSet(rows)
        wrong += any(found.beats(*pair) for pair in itertools.permutations("ab"))
    assert wrong / STUDIES <= 0.075


@pytest.mark.parametrize(
    ("tail", "most"), [(0.03, 0), (0.025, 3), (0.02, 3), (0.01, 6), (0.005, 11)]
)
def test_the_error_is_shared_by_all_that_may_beat_the_best(tail: float, most: int) -> None:
    """Each of k - 1 others has 5 % / (k - 1), and one of a pair half of 5 %."""
    rows = {f"m{n}": seeds_of([0.8] * 5) for n in range(12)}
    one = Lead(two_part=tail, ranks=tail, wins=1 / 32, losses=1 / 32)
    counts = range(2, len(rows) + 1)
    candidates = [{name: rows[name] for name in [*rows][:count]} for count in counts]
    shown = [BestSet(some, rows, lambda *_: one).beats("m0", "m1") for some in candidates]
    assert shown == [count <= most for count in counts]


def test_a_difference_from_the_leader_is_corrected_for_its_choice() -> None:
    assert of_leaders(0.95, 1) == of_leaders(0.95, 2) == 0.95
    assert of_leaders(0.95, 6) == pytest.approx(0.99)
