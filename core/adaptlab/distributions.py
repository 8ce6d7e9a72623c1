"""Quantiles of the beta and of Student's t distribution, without scipy.

The API shows intervals and must stay small: scipy.special alone would add 20 MB to it. Everything
rests on the regularised incomplete beta function, by its continued fraction (DLMF 8.17.22) with
the modified Lentz method; the tests compare with scipy.
"""

import math
from collections.abc import Callable

TINY = 1e-300
ENOUGH = 1e-15
LONGEST_FRACTION = 10_000
HALVINGS = 200


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b) for a, b > 0 and x in [0, 1]."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1 - incomplete_beta(b, a, 1 - x)
    front = a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b)
    return math.exp(front) / (a * _fraction(a, b, x))


def beta_quantile(a: float, b: float, probability: float) -> float:
    """The x with I_x(a, b) = `probability`."""
    return _bisected(lambda x: incomplete_beta(a, b, x), probability, 0.0, 1.0)


def student_quantile(freedom: float, probability: float) -> float:
    """The quantile of Student's t with `freedom` degrees of freedom, for `probability` >= 0.5."""
    tail = 2 * (1 - probability)
    share = _bisected(lambda x: incomplete_beta(freedom / 2, 0.5, x), tail, 0.0, 1.0)
    return math.sqrt(freedom * (1 - share) / share)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _fraction(a: float, b: float, x: float) -> float:
    """1 + d₁/(1 + d₂/(1 + …)), of which the inverse enters the incomplete beta function."""
    value, c, d = 1.0, 1.0, 0.0
    for number in range(1, LONGEST_FRACTION):
        m = number // 2
        if number % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _not_zero(1 + term * d)
        c = _not_zero(1 + term / c)
        value *= c * d
        if abs(c * d - 1) < ENOUGH:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > TINY else TINY


def _bisected(rising: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Where a rising function reaches `target`, to the last bit."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return (low + high) / 2
