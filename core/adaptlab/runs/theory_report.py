"""Report of a theory check: claim, measured value, tolerance and verdict."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field

from adaptlab.values import Name, Value

Finding = Literal["holds", "fails"]
Bound = Literal["at most", "at least"]
Number = float | int
Detail = Number | str | tuple[Number, ...]


class Check(Value):
    """One claim of the theory with its measured value.

    `claim` is a sentence that names its equation or theorem. `measured` is a largest deviation or
    a number of cases. `tolerance` is the largest or smallest value that agrees with the claim,
    depending on `bound`. `details` are the numbers behind it, by name.
    """

    name: Name
    claim: Annotated[str, Field(min_length=1)]
    measured: float
    tolerance: float
    bound: Bound = "at most"
    verdict: Finding
    details: Mapping[str, Detail] = Field(default_factory=dict[str, Detail])

    @property
    def holds(self) -> bool:
        """True if the measurement agrees with the claim."""
        return self.verdict == "holds"

    @classmethod
    def at_most(
        cls, name: str, claim: str, measured: float, tolerance: float, **details: Detail
    ) -> Self:
        """Return a check that holds if `measured` is at most `tolerance`."""
        return cls(
            name=name,
            claim=claim,
            measured=measured,
            tolerance=tolerance,
            verdict="holds" if measured <= tolerance else "fails",
            details=details,
        )

    @classmethod
    def at_least(
        cls, name: str, claim: str, measured: float, tolerance: float, **details: Detail
    ) -> Self:
        """Return a check that holds if `measured` is at least `tolerance`.

        Negative claims need it: a violation that the claim predicts must be measured.
        """
        return cls(
            name=name,
            claim=claim,
            measured=measured,
            tolerance=tolerance,
            bound="at least",
            verdict="holds" if measured >= tolerance else "fails",
            details=details,
        )


class TheoryReport(Value):
    """The checks of one run, in the order in which they ran."""

    checks: Annotated[tuple[Check, ...], Field(min_length=1)]

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks whose measurement contradicts the claim."""
        return tuple(check for check in self.checks if check.verdict == "fails")
