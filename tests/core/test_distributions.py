"""Our quantiles against scipy's, where few and many items and seeds meet."""

from itertools import product

import pytest
from scipy import special

from adaptlab.statistics.distributions import (
    beta_quantile,
    incomplete_beta,
    student_quantile,
    student_tail,
)

SIZES = (0.5, 1, 3, 40, 3200, 96_000)
OTHERS = (0.5, 1, 2.5, 70, 3201)
PLACES = (1e-6, 0.01, 0.3, 0.5, 0.97, 0.999999)
BETAS = (
    *((1, 3200), (3200, 1), (7, 90), (2.5, 2.5)),
    *((9600, 4), (1.15, 0.02), (0.5, 0.5), (3, 96_000)),
)


def test_the_incomplete_beta_function():
    for a, b, x in product(SIZES, OTHERS, PLACES):
        expected = special.betainc(a, b, x)
        assert incomplete_beta(a, b, x) == pytest.approx(expected, rel=1e-9, abs=1e-14), (a, b, x)


def test_beta_quantiles():
    for (a, b), probability in product(BETAS, (0.005, 0.025, 0.5, 0.975, 0.995)):
        expected = special.betaincinv(a, b, probability)
        found = beta_quantile(a, b, probability)
        assert found == pytest.approx(expected, rel=1e-9), (a, b, probability)


@pytest.mark.parametrize("freedom", [1, 2, 4, 9, 63])
@pytest.mark.parametrize("probability", [0.5, 0.8, 0.975, 0.9995])
def test_student_quantiles(freedom: int, probability: float):
    expected = special.stdtrit(freedom, probability)
    found = student_quantile(freedom, probability)
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-6)


@pytest.mark.parametrize("freedom", [1, 2, 9.5, 63, 3199])
@pytest.mark.parametrize("value", [0, 0.3, 2, 12.7, 400])
def test_student_tails(freedom: float, value: float):
    assert student_tail(freedom, value) == pytest.approx(special.stdtr(freedom, -value), rel=1e-9)
