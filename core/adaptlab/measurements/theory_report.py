"""What a theory check says: a claim, what was measured, how much may deviate, and a verdict."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field

from adaptlab.values import Name, Value

Finding = Literal["holds", "fails"]
Bound = Literal["at most", "at least"]
Number = float | int
Detail = Number | str | tuple[Number, ...]


class Check(Value):
    """One claim of the theory and what was measured of it.

    `claim` is a sentence that names its equation or theorem. `measured` is a largest deviation or
    a count of cases, and `tolerance` the most or the least that it may be, as `bound` says.
    `details` are the numbers behind it, by name.
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
        """Return True if the claim was borne out."""
        return self.verdict == "holds"

    @classmethod
    def at_most(
        cls, name: str, claim: str, measured: float, tolerance: float, **details: Detail
    ) -> Self:
        """The check that holds where no more than `tolerance` was measured."""
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
        """The check that holds where no less than `tolerance` was measured, as a negative has it.

        What a claim says is broken must be seen to break.
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
        """The checks whose claims were not borne out."""
        return tuple(check for check in self.checks if check.verdict == "fails")
