"""Simulated studies with known truth: seeds × items × methods of right and wrong answers."""

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
"""The probability of a right answer, of shape [seed, item] or broadcast to it."""


@dataclass(frozen=True, slots=True)
class World:
    """How a method's outcomes come about, and its true mean accuracy over seeds and items.

    `draw` gives the chances of one method from its own generator and that of the items, which all
    methods of a study share: (own, shared, seeds, items).
    """

    truth: float
    draw: Callable[[Generator, Generator, int, int], Chances]


def alike(accuracy: float) -> World:
    """All seeds and items alike: outcomes are tosses of one coin."""
    return World(accuracy, lambda own, shared, seeds, items: np.full((seeds, items), accuracy))


def hard_items(accuracy: float, sameness: float) -> World:
    """Seeds alike, items hard or easy as Beta says; a small `sameness` makes them differ much."""

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        a, b = accuracy * sameness, (1 - accuracy) * sameness
        return np.broadcast_to(shared.beta(a, b, (1, items)), (seeds, items))

    return World(accuracy, draw)


def fixed(accuracy: float) -> World:
    """No randomness of seeds at all: every seed answers every item as the others do."""

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        right = (shared.random((1, items)) < accuracy).astype(np.float64)
        return np.broadcast_to(right, (seeds, items))

    return World(accuracy, draw)


def normal_seeds(accuracy: float, deviation: float) -> World:
    """Accuracies of seeds normal around their mean, which must be far from 0 and 1."""

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        drawn = own.normal(accuracy, deviation, (seeds, 1))
        return np.broadcast_to(np.clip(drawn, 0, 1), (seeds, items))

    return World(accuracy, draw)


def crossed(centre: float, of_seeds: float, of_items: float) -> World:
    """A probit model: a normal effect for every seed and another for every item."""

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        effect = of_seeds * own.standard_normal((seeds, 1))
        return ndtr(centre + effect + of_items * shared.standard_normal((1, items)))

    return World(float(ndtr(centre / math.sqrt(1 + of_seeds**2 + of_items**2))), draw)


def skewed_seeds(a: float, b: float) -> World:
    """Accuracies of seeds from Beta(a, b), which lie to one side when a and b differ."""

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        return np.broadcast_to(own.beta(a, b, (seeds, 1)), (seeds, items))

    return World(a / (a + b), draw)


def lottery(failing: float, accuracy: float = 0.98) -> World:
    """A share of the seeds fails completely; the others reach `accuracy`."""

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        chances = np.where(own.random((seeds, 1)) < failing, 0.0, accuracy)
        return np.broadcast_to(chances, (seeds, items))

    return World((1 - failing) * accuracy, draw)


def logit_normal(mean: float, deviation: float) -> World:
    """Accuracies of seeds whose log-odds are normal; `mean` is that of the accuracies."""
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
    """Accuracies of seeds from a few values: pairs of a share of the seeds and their accuracy."""
    shares, values = (np.array(part) for part in zip(*atoms, strict=True))

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        chances = own.choice(values, size=(seeds, 1), p=shares / shares.sum())
        return np.broadcast_to(chances, (seeds, items))

    return World(float(shares @ values / shares.sum()), draw)


def opposed(*, flipped: bool) -> World:
    """Half of the seeds at 100 %, the others at 0 %; `flipped` the other half.

    Give them `same_seeds`: the one succeeds on just the seeds on which the other fails.
    """

    def draw(own: Generator, shared: Generator, seeds: int, items: int) -> Chances:
        succeeds = (own.random((seeds, 1)) < 0.5) != flipped
        return np.broadcast_to(succeeds.astype(np.float64), (seeds, items))

    return World(0.5, draw)


def counted(*counters: int) -> Generator:
    """A generator that depends on nothing but the counters."""
    return np.random.Generator(np.random.Philox(seed=np.random.SeedSequence(counters)))


def study(
    worlds: Mapping[str, World], seeds: int, items: int, number: int, same_seeds: bool = False
) -> list[Scores]:
    """Study `number`: one `Scores` a method, on shared items; `same_seeds` shares the seeds too."""
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
