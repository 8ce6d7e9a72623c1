"""Declaration of a theory check without torch."""

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Self
from uuid import UUID

from adaptlab.errors import Problem
from adaptlab.plugins.dataset import Datasets
from adaptlab.plugins.family import Family
from adaptlab.plugins.method import AnyMethod
from adaptlab.plugins.registry import ByName, Registry
from adaptlab.plugins.task import AnyTask
from adaptlab.text.source import TextSource
from adaptlab.values import PluginName, Value


class MeasuredAdaptation(Value):
    """An adaptation to measure.

    `digest` is the digest of the job's spec, and `method` the part of the method that is stored.
    `base_replicates` has, for each of `seeds`, the replicate of the base that it starts from.
    """

    job: UUID
    digest: str
    base_model: str
    base_digest: str | None
    method: AnyMethod
    task: AnyTask
    seeds: tuple[int, ...]
    base_replicates: tuple[int, ...]

    def of_first(self, replicates: int) -> "MeasuredAdaptation":
        """Return the adaptation with at most this number of seeds."""
        return self.model_copy(
            update={
                "seeds": self.seeds[:replicates],
                "base_replicates": self.base_replicates[:replicates],
            }
        )


class TheoryCheck(Value):
    """A theory check; its fields are its options.

    It returns one or more reports, each of a claim with its measured value.
    """

    title: ClassVar[str]
    summary: ClassVar[str]
    needs_base: ClassVar[bool] = False
    """True if it measures a base model; other checks build the models that they measure."""
    each_replicate: ClassVar[bool] = False
    """True if it measures every replicate of a base model; other checks measure the first."""
    needs_adaptation: ClassVar[bool] = False
    """True if it measures trained adaptations, all of one base model."""

    name: PluginName

    def tokens(self, base: Family) -> int:
        """Return the most tokens that pass through models.

        It is their number per adaptation, or per replicate of a base if each is measured.
        """
        return 0

    def own_tasks(self) -> tuple[AnyTask, ...]:
        """Return the tasks whose items it measures, beside those of adaptations."""
        return ()

    def settled(self, datasets: Datasets) -> Self:
        """Return the check with the datasets of its tasks looked up."""
        return self

    def with_texts(self, sources: Mapping[str, TextSource]) -> Self:
        """Return the check with the records of its tasks."""
        return self

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """Return the reasons against a base model, with pointers to `/base_model`."""
        return ()

    def adaptation_problems(
        self, base: Family, measured: tuple[MeasuredAdaptation, ...]
    ) -> tuple[Problem, ...]:
        """Return the reasons against measuring these adaptations.

        Pointers are to `/adaptation`, `/base_model`, or the check's own `/check/…`.
        """
        return ()


THEORY_CHECKS: Registry[type[TheoryCheck]] = Registry("check", "adaptlab.theory_checks")

AnyTheoryCheck = Annotated[TheoryCheck, ByName(THEORY_CHECKS)]
"""A field with any registered theory check, read by name."""


def no_attention(base: Family) -> tuple[Problem, ...]:
    """Return the problem of a model without attention."""
    if base.shape().layers:
        return ()
    detail = (
        f"The check measures attention, which this {base.name} does not have. Name a base model "
        "with attention."
    )
    return (Problem("/base_model", "no_attention_to_check", detail),)


def no_prefixes(measured: Iterable[MeasuredAdaptation]) -> tuple[Problem, ...]:
    """Return the problems of methods that are more than a prefix, or none."""
    return tuple(
        Problem(
            pointer="/adaptation",
            code="not_a_prefix",
            detail=(
                f"The check measures prefixes only, and job {adaptation.job} trains "
                f"{adaptation.method.name}. Name a job that trains only a prefix."
            ),
        )
        for adaptation in measured
        if not adaptation.method.is_prefix
    )
