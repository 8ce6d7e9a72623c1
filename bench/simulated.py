"""Simulated studies with known truth: seeds × items × methods."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtr

from adaptlab.statistics import Scores

Chances = NDArray[np.float64]
"""Probability of a correct answer, broadcast to [seed, item]."""


@dataclass(frozen=True, slots=True)
class World:
    """A distribution of a method's outcomes, and its true mean accuracy.

    `draw` returns one method's chances, given its own generator and the items' generator, which a
    study's methods share: (own, shared, seeds, items).
    """

    truth: float
    draw: Callable[[Generator, Generator, int, int], Chances]


def alike(accuracy: float) -> World:
    """Make all seeds and items alike: tosses of one coin."""
    return World(accuracy, lambda own, shared, seeds, items: np.full((seeds, items), accuracy))


def hard_items(accuracy: float, sameness: float) -> World:
    """Make seeds alike and items differ by Beta; less `sameness`, more so."""

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        a, b = accuracy * sameness, (1 - accuracy) * sameness
        return np.broadcast_to(shared.beta(a, b, (1, items)), (seeds, items))

    return World(accuracy, draw)


def fixed(accuracy: float) -> World:
    """Give all seeds the same answers."""

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        right = (shared.random((1, items)) < accuracy).astype(np.float64)
        return np.broadcast_to(right, (seeds, items))

    return World(accuracy, draw)


def normal_seeds(accuracy: float, deviation: float) -> World:
    """Draw seeds' accuracies from a normal law, far from 0 and 1."""

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        drawn = own.normal(accuracy, deviation, (seeds, 1))
        return np.broadcast_to(np.clip(drawn, 0, 1), (seeds, items))

    return World(accuracy, draw)


def crossed(centre: float, of_seeds: float, of_items: float) -> World:
    """Draw from a probit model with normal effects of seeds and items."""

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        effect = of_seeds * own.standard_normal((seeds, 1))
        return ndtr(centre + effect + of_items * shared.standard_normal((1, items)))

    return World(float(ndtr(centre / math.sqrt(1 + of_seeds**2 + of_items**2))), draw)


def skewed_seeds(a: float, b: float) -> World:
    """Draw seeds' accuracies from Beta(a, b), skewed if a and b differ."""

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        return np.broadcast_to(own.beta(a, b, (seeds, 1)), (seeds, items))

    return World(a / (a + b), draw)


def lottery(failing: float, accuracy: float = 0.98) -> World:
    """Let a share of the seeds fail; the others reach `accuracy`."""

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        chances = np.where(own.random((seeds, 1)) < failing, 0.0, accuracy)
        return np.broadcast_to(chances, (seeds, items))

    return World((1 - failing) * accuracy, draw)


def logit_normal(mean: float, deviation: float) -> World:
    """Draw normal log-odds of seeds; `mean` is the mean accuracy."""
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()

    def mean_at(centre: float) -> float:
        return float(weights @ expit(centre + deviation * points)) - mean

    centre = float(brentq(mean_at, -30, 30))

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        chances = expit(centre + deviation * own.standard_normal((seeds, 1)))
        return np.broadcast_to(chances, (seeds, items))

    return World(mean, draw)


def steps(*atoms: tuple[float, float]) -> World:
    """Draw accuracies from a few values, given as (share, accuracy)."""
    shares, values = (np.array(part) for part in zip(*atoms, strict=True))

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        chances = own.choice(values, size=(seeds, 1), p=shares / shares.sum())
        return np.broadcast_to(chances, (seeds, items))

    return World(float(shares @ values / shares.sum()), draw)


def opposed(*, flipped: bool) -> World:
    """Put half of the seeds at 100 %, the others at 0 %; or `flipped`.

    Use `same_seeds`: one method then succeeds on exactly the seeds on which the other fails.
    """

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        succeeds = (own.random((seeds, 1)) < 0.5) != flipped
        return np.broadcast_to(succeeds.astype(np.float64), (seeds, items))

    return World(0.5, draw)


def counted(*counters: int) -> Generator:
    """Return a generator determined by the counters alone."""
    return np.random.Generator(np.random.Philox(seed=np.random.SeedSequence(counters)))


def study(
    worlds: Mapping[str, World], seeds: int, items: int, number: int, same_seeds: bool = False
) -> list[Scores]:
    """Return study `number`: one `Scores` per method, on shared items.

    With `same_seeds` the methods share seeds too.
    """
    found: list[Scores] = []
    for place, (method, world) in enumerate(worlds.items()):
        own = counted(number, 1 if same_seeds else 2 + place)
        chances = world.draw(own, counted(number, 0), seeds, items)
        right = counted(number, 1000 + place).random((seeds, items)) < chances
        packed = np.packbits(right, axis=1)
        found.append(
            Scores(
                method=method,
                seeds=tuple(range(seeds)),
                items=items,
                outcomes=tuple(row.tobytes().hex() for row in packed),
            )
        )
    return found
