"""Shapes of simulated studies with a question, each with known truth."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from adaptlab.studies.question import QuestionLimits, WithinMarginOf
from adaptlab.studies.study import QuestionSpec
from bench.simulated import (
    World,
    alike,
    fixed,
    hard_items,
    lottery,
    normal_seeds,
    opposed,
    skewed_seeds,
)

ITEMS = 1000
TRIALS = 8
MEDIUM = QuestionSpec()


@dataclass(frozen=True, slots=True)
class Shape:
    """Methods with known distributions, and the question asked of them.

    `rates` is the number of learning rates of a full grid. The best one is drawn for each method
    and study, and its neighbours are as good; with `at_edge` it is the highest or the lowest. Of
    the methods in `narrow`, no neighbour is good: a coarse sweep that misses their best rate leaves
    them with the accuracy given. With `bases`, seeds share that many replicates of the base model,
    on each of which a method succeeds or fails as a whole.
    """

    worlds: Mapping[str, World]
    question: QuestionSpec = MEDIUM
    rates: int = TRIALS
    items: int = ITEMS
    same_seeds: bool = False
    at_edge: bool = False
    narrow: Mapping[str, float] = field(default_factory=dict)
    bases: int | None = None


def _named(*worlds: World) -> dict[str, World]:
    return dict(zip("abcdefgh", worlds, strict=False))


ORDER = QuestionSpec(decide="order")
WORKS = QuestionSpec(decide="works")
WITHIN_25 = QuestionSpec(decide=WithinMarginOf(within_margin_of="full"), margin=0.25)
WITHIN_50 = QuestionSpec(decide=WithinMarginOf(within_margin_of="full"), margin=0.5)
FEW_SEEDS = QuestionSpec(at_most=QuestionLimits(seeds=6))
ZERO = alike(0.0)

ANSWERABLE: Mapping[str, Shape] = {
    "best: one of four works (97 ± 1 %; 2, 0, 0 %)": Shape(
        _named(normal_seeds(0.97, 0.01), alike(0.02), ZERO, ZERO)
    ),
    "best: the winner fails on 1 seed in 5": Shape(
        _named(lottery(0.2, 0.97), alike(0.02), skewed_seeds(2, 38), ZERO)
    ),
    "best: unequal variances (85 ± 1; 50 ± 15; 30 ± 10; 40 ± 2 %)": Shape(
        _named(
            normal_seeds(0.85, 0.01),
            normal_seeds(0.5, 0.15),
            normal_seeds(0.3, 0.1),
            normal_seeds(0.4, 0.02),
        )
    ),
    "best: scores at 0 and 1 (100; 100 on 2 seeds of 5; 0 %)": Shape(
        _named(alike(1.0), lottery(0.6, 1.0), ZERO)
    ),
    "best: hard items, shared by all (90; 35; 20; 20 %)": Shape(
        _named(
            hard_items(0.9, 0.5), hard_items(0.35, 0.5), hard_items(0.2, 0.5), hard_items(0.2, 0.5)
        )
    ),
    "best: six methods (90 ± 3; 30, 20, 10, 10, 0 ± 3 %)": Shape(
        _named(
            normal_seeds(0.9, 0.03),
            normal_seeds(0.3, 0.03),
            normal_seeds(0.2, 0.03),
            normal_seeds(0.1, 0.03),
            normal_seeds(0.1, 0.03),
            ZERO,
        )
    ),
    "best: eight methods, two lotteries (98; 50; 30 % and five at 0 to 5 %)": Shape(
        _named(
            alike(0.98),
            lottery(0.5, 0.98),
            lottery(0.7, 0.98),
            alike(0.05),
            alike(0.02),
            skewed_seeds(1, 50),
            ZERO,
            ZERO,
        )
    ),
    "best: rates at an edge (97 ± 1; 2, 0 %)": Shape(
        _named(normal_seeds(0.97, 0.01), alike(0.02), ZERO), at_edge=True
    ),
    "order of three (Beta means 95, 55, 10 %)": Shape(
        _named(skewed_seeds(57, 3), skewed_seeds(16.5, 13.5), skewed_seeds(3, 27)), ORDER
    ),
    "order of four (97; 60 ± 3; 30 ± 3; 0 %)": Shape(
        _named(alike(0.97), normal_seeds(0.6, 0.03), normal_seeds(0.3, 0.03), ZERO), ORDER
    ),
    "works: three, one fails on 1 seed in 5; base 2 %": Shape(
        {
            "frozen": alike(0.02),
            "a": alike(0.9),
            "b": lottery(0.2, 0.97),
            "c": normal_seeds(0.5, 0.05),
        },
        WORKS,
    ),
    "within 50 points of full (97; 95 ± 1; 5; 0 %)": Shape(
        {"full": alike(0.97), "a": normal_seeds(0.95, 0.01), "b": alike(0.05), "c": ZERO},
        WITHIN_50,
    ),
    "best: two methods (98; 2 %)": Shape(_named(alike(0.98), alike(0.02))),
    "best: two methods with one rate each (98; 2 %)": Shape(
        _named(alike(0.98), alike(0.02)), rates=1
    ),
    "best: two methods with three rates (60 ± 5; 20 ± 5 %)": Shape(
        _named(normal_seeds(0.6, 0.05), normal_seeds(0.2, 0.05)), rates=3
    ),
}
"""Shapes whose question has an answer that some tens of seeds can find."""

UNANSWERABLE: Mapping[str, Shape] = {
    "two equal winners (99, 99, 0, 1 %)": Shape(
        _named(alike(0.99), alike(0.99), ZERO, alike(0.01))
    ),
    "four equal lotteries, 1 seed in 5 fails": Shape(_named(*[lottery(0.2, 0.97)] * 4)),
    "six equal lotteries, 1 seed in 2 fails": Shape(_named(*[lottery(0.5, 1.0)] * 6)),
    "two equal lotteries, 1 seed in 2 fails": Shape(_named(*[lottery(0.5, 1.0)] * 2)),
    "order of two equal lotteries": Shape(_named(*[lottery(0.5, 1.0)] * 2), ORDER),
    "four exactly equal (the same answers)": Shape(_named(*[fixed(0.7)] * 4)),
    "equal means, unlike seeds (80; 100 on 4 of 5; 80 ± 10 %)": Shape(
        _named(alike(0.8), lottery(0.2, 1.0), normal_seeds(0.8, 0.1))
    ),
    "30 % and 100 % on 3 seeds of 10": Shape(_named(alike(0.3), lottery(0.7, 1.0))),
    "close pair (98, 95, 0, 0 %)": Shape(_named(alike(0.98), alike(0.95), ZERO, ZERO)),
    "works by exactly the margin (3 % against 2 %)": Shape(
        {"frozen": alike(0.02), "a": alike(0.03), "b": alike(0.03)}, WORKS
    ),
    "works: one does nothing (90; 0; base 0 %)": Shape(
        {"frozen": ZERO, "a": alike(0.9), "b": ZERO}, WORKS
    ),
    "exactly the margin less than full (90; 65, 65 on 4 of 5)": Shape(
        {"full": alike(0.9), "a": alike(0.65), "b": lottery(0.2, 0.8125)}, WITHIN_25
    ),
    "within 25 points of full (97; 95 ± 1; 50 ± 5; 5 %)": Shape(
        {
            "full": alike(0.97),
            "a": normal_seeds(0.95, 0.01),
            "b": normal_seeds(0.5, 0.05),
            "c": alike(0.05),
        },
        WITHIN_25,
    ),
    "the limit of 6 seeds is reached (1 seed in 5 fails)": Shape(
        _named(lottery(0.2, 0.97), alike(0.02), skewed_seeds(2, 38), ZERO), FEW_SEEDS
    ),
    "50 correlated items, seeds agree (70, 70 %)": Shape(
        _named(hard_items(0.7, 0.1), hard_items(0.7, 0.1)), items=50
    ),
}
"""Shapes whose question has no answer, or none that the limits allow."""

OUTSIDE: Mapping[str, Shape] = {
    "opposed lotteries on the same seeds": Shape(
        _named(opposed(flipped=False), opposed(flipped=True)), same_seeds=True
    ),
    "one replicate of the base, which decides": Shape(_named(*[lottery(0.5, 1.0)] * 2), bases=1),
    "five replicates of the base, which decide": Shape(_named(*[lottery(0.5, 1.0)] * 2), bases=5),
    "narrow rates: the sweep misses the best one (97 or 30; 60 %)": Shape(
        _named(normal_seeds(0.97, 0.01), normal_seeds(0.6, 0.03)), narrow={"a": 0.3}
    ),
}
"""Shapes that break an assumption."""

SHAPES: Mapping[str, Shape] = {**ANSWERABLE, **UNANSWERABLE, **OUTSIDE}
