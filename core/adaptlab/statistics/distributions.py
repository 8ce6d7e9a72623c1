"""Quantiles of the beta distribution and of Student's t, without scipy.

The API shows intervals and must stay small: scipy.special alone would add 20 MB to it. All
functions use the regularised incomplete beta function, by its continued fraction (DLMF 8.17.22)
with the modified Lentz method. The tests compare with scipy.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

TINY = 1e-300
ENOUGH = 1e-15
LONGEST_FRACTION = 10_000
STEPS = 200
EPSILON = 2.0**-52
LAST_STEP = 1e-9
"""Relative length of a Newton step after which the error is that of rounding: its square."""
SMALLEST_LOG = -700.0
"""Below it, the exponential function underflows."""


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b).

    It is defined for a, b > 0 and x in [0, 1].
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1 - incomplete_beta(b, a, 1 - x)
    front = a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b)
    return math.exp(front) / (a * _fraction(a, b, x))


def beta_quantile(a: float, b: float, probability: float) -> float:
    """Return the x with I_x(a, b) = `probability`.

    Newton's method from the quantile of the normal distribution with the same mean and variance. A
    step that leaves the bracket, or is not half as long as the last one, is replaced by bisection.
    Where the density is unbounded, no slopes are used.
    """
    if min(a, b) < 1:
        return where_rising(lambda x: incomplete_beta(a, b, x), probability)
    mean, log_beta = a / (a + b), _log_beta(a, b)
    deviation = math.sqrt(mean * (1 - mean) / (a + b + 1))
    low, high, last = 0.0, 1.0, 1.0
    x = mean + deviation * NormalDist().inv_cdf(probability)
    x = x if 0 < x < 1 else mean
    for _ in range(STEPS):
        above = incomplete_beta(a, b, x) - probability
        low, high = (low, x) if above > 0 else (x, high)
        log_slope = (a - 1) * math.log(x) + (b - 1) * math.log1p(-x) - log_beta
        step = above * math.exp(-log_slope) if log_slope > SMALLEST_LOG else math.inf
        if low < x - step < high and abs(step) <= last / 2:
            x -= step
            if abs(step) <= LAST_STEP * x:
                break
        else:
            step = x - (low + high) / 2
            x -= step
            if not low < x < high:
                break
        last = abs(step)
    return x


@lru_cache(maxsize=1024)
def student_quantile(freedom: float, probability: float) -> float:
    """Return the quantile of Student's t, for `probability` >= 0.5.

    `freedom` is the degrees of freedom.
    """
    tail = 2 * (1 - probability)
    share = where_rising(lambda x: incomplete_beta(freedom / 2, 0.5, x), tail)
    return math.sqrt(freedom * (1 - share) / share)


def student_tail(freedom: float, value: float) -> float:
    """Return the probability that Student's t is above `value` >= 0."""
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + value * value)) / 2


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction 1 + d₁/(1 + d₂/(1 + …)).

    Its inverse is a factor of the incomplete beta function.
    """
    value, c, d = 1.0, 1.0, 0.0
    for number in range(1, LONGEST_FRACTION):
        m = number // 2
        if number % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 + term * d
        d = 1 / (d if abs(d) > TINY else TINY)
        c = 1 + term / c
        c = c if abs(c) > TINY else TINY
        change = c * d
        value *= change
        if abs(change - 1) < ENOUGH:
            break
    return value


def where_rising(
    rising: Callable[[float], float], target: float, low: float = 0.0, high: float = 1.0
) -> float:
    """Return the argument at which a rising function reaches `target`.

    It is between `low` and `high`. Chandrupatla's method (1997) mixes bisection and inverse
    quadratic interpolation, and takes a quarter of the steps of bisection.
    """
    a, b, c = high, low, high
    fa, fb = rising(a) - target, rising(b) - target
    if fa == 0 or fb == 0:
        return a if fa == 0 else b
    fc, step = fa, 0.5
    for _ in range(STEPS):
        middle = a + step * (b - a)
        value = rising(middle) - target
        if (value > 0) == (fa > 0):
            c, fc = a, fa
        else:
            c, b, fc, fb = b, a, fb, fa
        a, fa = middle, value
        best = a if abs(fa) < abs(fb) else b
        close = 2 * EPSILON * abs(best) / abs(b - a) if b != a else 1.0
        if close > 0.5 or min(abs(fa), abs(fb)) == 0:
            return best
        step = min(max(_step(a, b, c, fa, fb, fc), close), 1 - close)
    return (a + b) / 2


def _step(a: float, b: float, c: float, fa: float, fb: float, fc: float) -> float:
    """Return the step from a to b, as a share.

    It is by interpolation if that is safe, otherwise half.
    """
    place, height = (a - b) / (c - b), (fa - fb) / (fc - fb)
    if height**2 < place and (1 - height) ** 2 < 1 - place:
        first = fa / (fb - fa) * fc / (fb - fc)
        return first + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return 0.5
