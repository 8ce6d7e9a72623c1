"""A mean accuracy with its limits, without the library that computes it."""

from typing import Annotated

from pydantic import Field

from adaptlab.values import Value

Fraction = Annotated[float, Field(ge=0, le=1)]


class Interval(Value):
    """A mean accuracy over trained seeds, with limits at `level`.

    A seed without a score, because it diverged or no trial of it was left, got nothing right.

    `low` and `high` limit the score of a typical seed, the median one, on new test items
    (`statistics.typical`). If `over_items_only`, they cover other items only, because there is one
    seed or every seed has the same score. `all_seeds_low` and `all_seeds_high` limit the mean over
    all seeds, including failures and successes that no seed showed; they are None in results of
    older versions.
    """

    mean: Fraction
    low: Fraction
    high: Fraction
    level: Annotated[float, Field(gt=0, lt=1)]
    seeds: Annotated[int, Field(ge=1)]
    over_items_only: bool = False
    all_seeds_low: Fraction | None = None
    all_seeds_high: Fraction | None = None
