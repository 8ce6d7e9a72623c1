"""Means over all seeds, and what n seeds may have missed.

The references are closed forms and exact tests.
"""

import numpy as np
import pytest
from scipy import optimize, stats
from tests.core.scoring import drawn, scores

from adaptlab.statistics import failing_seeds, mean_interval
from adaptlab.statistics.unseen import evidence, means


@pytest.mark.parametrize("seen", [(1, 1, 1, 1, 0), (0.9,) * 4, (0.2, 0.3)])
def test_it_is_the_likelihood_ratio_of_distributions_on_the_whole_scale(seen: tuple[float, ...]):
    """The reference is found by optimising weights, without a multiplier.

    The weights are those of the scores seen and of both ends.
    """

    def log_ratio(scores: tuple[float, ...], mean: float) -> float:
        points = np.unique([*scores, 0.0, 1.0])
        counts = np.array([scores.count(point) for point in points])
        some = counts[counts > 0]
        best = float(np.sum(some * np.log(some / len(scores))))
        given = np.stack([np.ones(len(points)), points])
        found = optimize.minimize(
            lambda weights: -float(np.sum(some * np.log(weights[counts > 0]))),
            np.full(len(points), 1 / len(points)),
            method="SLSQP",
            bounds=optimize.Bounds(1e-12, 1),
            constraints=optimize.LinearConstraint(given, [1, mean], [1, mean]),
        )
        return best + float(found.fun)

    found = evidence(np.array(seen, float))
    place = int(np.searchsorted(means(), 0.6 * np.mean(seen)))
    assert found.above[place] == pytest.approx(log_ratio(seen, float(means()[place])), rel=5e-3)


@pytest.mark.parametrize("seeds", [1, 3, 5, 10])
def test_limits_of_successes_alone_are_those_of_clopper_and_pearson(seeds: int):
    assert evidence(np.ones(seeds)).limits(0.95) == pytest.approx(
        (0.025 ** (1 / seeds), 1.0), abs=1e-4
    )
    assert evidence(np.zeros(seeds)).limits(0.95) == pytest.approx(
        (0.0, 1 - 0.025 ** (1 / seeds)), abs=1e-4
    )


def test_an_interval_names_what_it_covers():
    same = scores([[1] * 60 + [0] * 40] * 5)
    unlike = drawn([0.5, 0.6, 0.7], 100)
    assert mean_interval(same).over_items_only
    assert not mean_interval(unlike).over_items_only
    found = mean_interval(scores([[1] * 100] * 5))
    assert found.all_seeds_low == pytest.approx(0.025 ** (1 / 5), abs=1e-4)
    assert found.low == pytest.approx(0.025 ** (1 / 100), abs=1e-9)


def test_shares_of_failing_seeds_are_those_of_scipy():
    for failing, seeds in ((1, 5), (3, 10), (9, 10)):
        limits = stats.binomtest(failing, seeds).proportion_ci(0.95, method="exact")
        found = failing_seeds(failing, seeds)
        assert (found.low, found.high) == pytest.approx((limits.low, limits.high))
    assert failing_seeds(0, 5).high == pytest.approx(1 - 0.05 ** (1 / 5))
    assert failing_seeds(5, 5).low == pytest.approx(0.05 ** (1 / 5))
