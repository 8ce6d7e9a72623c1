"""The one classification of a method in a table."""

from typing import Literal

from adaptlab.comparisons.verdict import LEAST_SEEDS
from adaptlab.statistics.failing import FailingSeeds

Standing = Literal["works", "behind", "partly", "fails", "unknown"]
"""`works`: at least four of five seeds beat the floor, and no method is shown to be better.
`behind`: it works, and another method is better. `partly`: fewer seeds beat the floor. `fails`:
none does. `unknown`: too few seeds, or settings that void the comparison.
"""

MOSTLY = 0.8
"""The share of seeds that must beat the floor for a method to work."""


def standing_of(failing: FailingSeeds, *, may_be_best: bool, voided: bool) -> Standing:
    """Return the standing of a method with these seeds."""
    if voided or failing.seeds < LEAST_SEEDS:
        return "unknown"
    if failing.ok == 0:
        return "fails"
    if failing.ok < MOSTLY * failing.seeds:
        return "partly"
    return "works" if may_be_best else "behind"
