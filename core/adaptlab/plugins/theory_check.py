"""What a theory check declares, torch-free: its knobs, and what it needs to measure."""

from collections.abc import Iterable
from typing import Annotated, ClassVar
from uuid import UUID

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.method import AnyMethod
from adaptlab.plugins.registry import ByName, Registry
from adaptlab.plugins.task import AnyTask
from adaptlab.values import PluginName, Value


class Measured(Value):
    """An adaptation that is to be measured, of what and for which seeds.

    `digest` is that of the job's spec and `method` what is kept of the method; `base_replicates`
    has for each of `seeds` the replicate of the base that it starts from.
    """

    job: UUID
    digest: str
    base_model: str
    base_digest: str | None
    method: AnyMethod
    task: AnyTask
    seeds: tuple[int, ...]
    base_replicates: tuple[int, ...]

    def of_first(self, replicates: int) -> "Measured":
        """The same adaptation with that many seeds at most."""
        return self.model_copy(
            update={
                "seeds": self.seeds[:replicates],
                "base_replicates": self.base_replicates[:replicates],
            }
        )


class TheoryCheck(Value):
    """A check as it can be asked for; the fields are its knobs.

    It yields one or more reports, each of a claim with what was measured of it.
    """

    title: ClassVar[str]
    summary: ClassVar[str]
    needs_base: ClassVar[bool] = False
    """Whether it measures a base model; the others build what they measure."""
    needs_adaptation: ClassVar[bool] = False
    """Whether it measures what jobs have trained, all of it on one base model."""

    name: PluginName

    def tokens(self, base: Family) -> int:
        """How many tokens pass through models at most, for one adaptation if it measures such."""
        return 0

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """Why it cannot measure such a base model, with pointers to `/base_model`."""
        return ()

    def adaptation_problems(
        self, base: Family, measured: tuple[Measured, ...]
    ) -> tuple[Problem, ...]:
        """Why it cannot measure such adaptations of it.

        Pointers are to `/adaptation`, `/base_model`, or the check's own `/check/…`.
        """
        return ()


THEORY_CHECKS: Registry[type[TheoryCheck]] = Registry("check", "adaptlab.theory_checks")

AnyTheoryCheck = Annotated[TheoryCheck, ByName(THEORY_CHECKS)]
"""A field of a value that holds any registered one; it is read by name."""


def no_attention(base: Family) -> tuple[Problem, ...]:
    """The fault of a model without attention."""
    if base.shape().layers:
        return ()
    detail = f"The check is of attention, which this {base.name} does not have."
    return (Problem("/base_model", "no_attention_to_check", detail),)


def no_prefixes(measured: Iterable[Measured]) -> tuple[Problem, ...]:
    """The fault of methods that are not, or not only, a prefix."""
    return tuple(
        Problem(
            pointer="/adaptation",
            code="not_a_prefix",
            detail=(
                f"The claim is about learned rows in front of every layer's attention and nothing "
                f"else, and job {one.job} trains {one.method.name}; name a job of a "
                "prefix."
            ),
        )
        for one in measured
        if not one.method.is_prefix
    )
