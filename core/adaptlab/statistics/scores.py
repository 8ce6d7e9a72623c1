"""The outcomes of one method: which of the shared test items each of its seeds got right."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Self, TypeAlias

from pydantic import Field, model_validator

from adaptlab.measurements.results import Evaluation
from adaptlab.values import Value

if TYPE_CHECKING:  # numpy is loaded by who computes: a server that lists jobs saves 20 MB
    import numpy as np
    from numpy.typing import NDArray

Outcomes: TypeAlias = "NDArray[np.float64]"
"""Ones and zeros, of shape [seed, item]; differences of them are also -1."""


class Scores(Value):
    """What one method did at one budget on one task: an outcome for every seed and test item.

    Item i is the same item for every seed and every method, which is what makes tests paired.
    `outcomes` has one entry a seed, bits packed as by `numpy.packbits` and written as hexadecimal,
    as in `results.Evaluation`. `budget` is what was asked for, None for a method that takes no
    budget and so stands beside every one; `parameters` is what was trained; `trials` is the number
    of tuning trials a seed had. `bases` says for each seed which replicate of the base model it
    starts from, where that is known: seeds of one base are not independent.
    """

    method: str
    budget: int | None = None
    parameters: int | None = None
    trials: int | None = None
    seeds: Annotated[tuple[int, ...], Field(min_length=1)]
    items: Annotated[int, Field(ge=1)]
    outcomes: tuple[str, ...]
    bases: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """One packed row a seed, each as long as its items ask for, no seed twice."""
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"{self.method} names a seed twice: {self.seeds}.")
        if len(self.outcomes) != len(self.seeds):
            raise ValueError(
                f"{self.method} has {len(self.seeds)} seeds and {len(self.outcomes)} rows of "
                "outcomes; give one row a seed."
            )
        if self.bases and len(self.bases) != len(self.seeds):
            raise ValueError(f"{self.method} has {len(self.bases)} bases; give one a seed.")
        digits = 2 * ((self.items + 7) // 8)
        for seed, packed in zip(self.seeds, self.outcomes, strict=True):
            if len(packed) != digits:
                raise ValueError(
                    f"Seed {seed} of {self.method} has {len(packed)} hexadecimal digits; "
                    f"{self.items} items take {digits}."
                )
        return self

    @property
    def label(self) -> str:
        """The method and, where it has one, its budget: how messages name the row."""
        return self.method if self.budget is None else f"{self.method} at {self.budget:,}"

    def matrix(self, seeds: Sequence[int] | None = None) -> Outcomes:
        """The outcomes as numbers, [seed, item], for all seeds or the given ones in their order."""
        import numpy as np

        return self.bits(self.seeds if seeds is None else seeds).astype(np.float64)

    def bits(self, seeds: Sequence[int]) -> "NDArray[np.uint8]":
        """The outcomes of these seeds as bytes of 0 and 1, [seed, item]."""
        import numpy as np

        rows = dict(zip(self.seeds, self.outcomes, strict=True))
        packed = np.frombuffer(bytes.fromhex("".join(rows[seed] for seed in seeds)), np.uint8)
        return np.unpackbits(packed.reshape(len(seeds), -1), axis=1, count=self.items)


def scores_of(
    method: str,
    evaluations: Sequence[Evaluation],
    *,
    budget: int | None = None,
    parameters: int | None = None,
    trials: int | None = None,
    bases: Mapping[int, int] | None = None,
) -> Scores:
    """The scores of a method from its evaluations on one task, one a seed; `bases` are by seed.

    Raises `ValueError` for none, and for evaluations of unequal numbers of items.
    """
    totals = {one.total for one in evaluations}
    if len(totals) != 1:
        raise ValueError(
            f"{method} was scored on {sorted(totals)} items; give evaluations of one set of items."
        )
    ordered = sorted(evaluations, key=lambda one: one.seed)
    return Scores(
        method=method,
        budget=budget,
        parameters=parameters,
        trials=trials,
        seeds=tuple(one.seed for one in ordered),
        items=totals.pop(),
        outcomes=tuple(one.outcomes for one in ordered),
        bases=tuple(bases[one.seed] for one in ordered) if bases else (),
    )
