"""Claims of a paper in their wordings, each with the test that decides it."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from adaptlab.specs.spec import NamedChoice
from adaptlab.values import Name, Value

Preset = Literal["quick", "small", "faithful", "fair", "text"]
Share = Annotated[float, Field(ge=0, le=1)]
RowLabel = Annotated[str, Field(min_length=1, max_length=120)]
ColumnLabel = Annotated[str, Field(min_length=1, max_length=60)]
Cell = tuple[RowLabel, ColumnLabel | None]
"""A row that a test reads, and its column if it has one."""


class RowSelector(Value):
    """The study's result that a row of a table shows.

    `base_model` is the recipe's word for it, None for the first. `method` is the method's label in
    the study, None for the base model alone. `task` is the task that was trained and `budget` the
    limit in trainable parameters; None if the study has only one.
    """

    base_model: str | None = None
    method: str | None = None
    task: NamedChoice | None = None
    budget: int | None = None


class OfRow(Value):
    """A test of a row of a table."""

    row: RowLabel

    def cells(self) -> tuple[Cell, ...]:
        """Return the rows that are read, with the column if there is one."""
        return ((self.row, None),)


class OfCell(OfRow):
    """A test of a row in a column."""

    column: ColumnLabel

    def cells(self) -> tuple[Cell, ...]:
        """Return the cell of the row."""
        return ((self.row, self.column),)


class OfTwoRows(OfCell):
    """A claimed order of two rows in a column."""

    other: RowLabel

    def cells(self) -> tuple[Cell, ...]:
        """Return the cells of both rows."""
        return ((self.row, self.column), (self.other, self.column))


class ScoreAtMost(OfCell):
    """The row's mean accuracy over seeds in the column is at most `value`.

    With `above_floor`, it is at most `value` above the task's floor, which needs no skill: the
    better of guessing and the best constant answer.
    """

    kind: Literal["score_at_most"] = "score_at_most"
    value: Share
    above_floor: bool = False


class ScoreAtLeast(OfCell):
    """The row's mean accuracy over seeds in the column is at least `value`."""

    kind: Literal["score_at_least"] = "score_at_least"
    value: Share


class ScoreAbove(OfTwoRows):
    """The row scores higher than another, by more than `by`.

    `by` is a share of items (0.01: one point). The other row is read in `other_column`, by default
    in the same column.
    """

    kind: Literal["score_above"] = "score_above"
    other_column: ColumnLabel | None = None
    by: Share = 0.0

    def cells(self) -> tuple[Cell, ...]:
        """Return the cells of both rows."""
        return ((self.row, self.column), (self.other, self.other_column or self.column))


class RetainsMore(OfTwoRows):
    """The row retains more of the column's old task than another, by `by`.

    Retention is (attached - floor) / (base - floor) per seed, as on a study's page; `by` is a share
    of the skill (0.01: one point). It is decided only where every base is shown to have the skill.
    """

    kind: Literal["retains_more"] = "retains_more"
    by: Share = 0.0


class DriftsLess(OfTwoRows):
    """The row drifts less than another on the column's neutral text, by `by`.

    Drift is KL(base || adapted) per token, and `by` in nats.
    """

    kind: Literal["drifts_less"] = "drifts_less"
    by: Annotated[float, Field(ge=0)] = 0.0


class EveryTrialAtMost(OfRow):
    """Every trial of every seed scores at most `value` on validation.

    The accuracy is on the task that was trained, and `above_floor` as in `ScoreAtMost`. With fewer
    than `trials` trials per seed, the claim can be refuted but not shown.
    """

    kind: Literal["every_trial_at_most"] = "every_trial_at_most"
    value: Share
    above_floor: bool = False
    trials: int = Field(default=1, ge=1)


class DeviationAtMost(OfRow):
    """Relative attention moved by at most `value` in the first layer.

    This holds for every head and seed.
    """

    kind: Literal["deviation_at_most"] = "deviation_at_most"
    value: Annotated[float, Field(ge=0)]


class DeviationAtLeast(OfRow):
    """Relative attention moved by at least `value` in the first layer.

    This holds for some head of every seed. It tests that an identity fails where the theory says
    so.
    """

    kind: Literal["deviation_at_least"] = "deviation_at_least"
    value: Annotated[float, Field(ge=0)]


class CheckHolds(Value):
    """Every report of a theory check of the study holds.

    `check` is the check's name, or its label in the study. With `report`, only reports of that name
    count; with `of`, only those on that base model or adaptation.
    """

    kind: Literal["check_holds"] = "check_holds"
    check: Name
    report: Name | None = None
    of: RowSelector | None = None

    def cells(self) -> tuple[Cell, ...]:
        """Return nothing: a check is not in a table."""
        return ()


class CheckAbove(OfRow):
    """A figure of a theory check is larger for the row than for another.

    `detail` is the figure by replicate in the check's reports; the claim is that it is larger by
    more than `by`, in the figure's own unit.
    """

    kind: Literal["check_above"] = "check_above"
    other: RowLabel
    check: Name
    detail: Name
    by: Annotated[float, Field(ge=0)] = 0.0

    def cells(self) -> tuple[Cell, ...]:
        """Return both rows."""
        return ((self.row, None), (self.other, None))


class NoLarger(OfRow):
    """The row has no more trained parameters than another.

    `within` is the tolerance, as a share.
    """

    kind: Literal["no_larger"] = "no_larger"
    other: RowLabel
    within: Share = 0.02

    def cells(self) -> tuple[Cell, ...]:
        """Return both rows."""
        return ((self.row, None), (self.other, None))


PlainTest = Annotated[
    ScoreAtMost
    | ScoreAtLeast
    | ScoreAbove
    | RetainsMore
    | DriftsLess
    | EveryTrialAtMost
    | DeviationAtMost
    | DeviationAtLeast
    | NoLarger
    | CheckHolds
    | CheckAbove,
    Field(discriminator="kind"),
]


class AllOf(Value):
    """All of several tests, for a claim about more than one figure."""

    kind: Literal["all_of"] = "all_of"
    tests: Annotated[tuple[PlainTest, ...], Field(min_length=2)]


ClaimTest = Annotated[PlainTest | AllOf, Field(discriminator="kind")]

VersionName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
"""A version of a paper as code names it, such as `arxiv_v1`."""
VersionLabel = Annotated[str, Field(min_length=1, max_length=40)]
Versions = Annotated[Mapping[VersionName, VersionLabel], Field(min_length=1)]
"""The versions of a paper with their labels, oldest first."""


ClaimRole = Literal["paper", "premise", "own"]
"""Claimed by the paper; needed before its claims are asked; added by us."""


def version_words(
    version: str, versions: Mapping[str, str], *, alone: bool, role: ClaimRole
) -> str:
    """Return the label of the version of the paper with this wording.

    If the wording is the claim's only one (`alone`), every version has it: "the paper" has one,
    "both versions" are two. What the paper does not claim is a premise or ours.
    """
    if role != "paper":
        return "premise" if role == "premise" else "ours"
    if not alone:
        return versions.get(version, version)
    return {1: "the paper", 2: "both versions"}.get(len(versions), "all versions")


class Wording(Value):
    """One version of a claim, in our words, and the test that decides it."""

    text: Annotated[str, Field(min_length=1)]
    test: ClaimTest


class PaperClaim(Value):
    """A claim of the paper, or one that we add, by its `role`.

    `wordings` has the wording of each version of the paper, oldest first; a version without one
    says the same as the latest that has one. `given` are premises, such as that a task was learned
    before forgetting is considered: unless all are shown, the claim is undecided. `controls` must
    be shown before a failure counts, such as that another method learned the same task: without
    them, the claim can be refuted but not shown. `given_in` has the premises of presets whose
    base or data are others, in place of `given`. With `presets`, only these test the claim.
    """

    id: Name
    wordings: Annotated[Mapping[VersionName, Wording], Field(min_length=1)]
    role: ClaimRole = "paper"
    given: tuple[PlainTest, ...] = ()
    controls: tuple[PlainTest, ...] = ()
    given_in: Mapping[Preset, tuple[PlainTest, ...]] = Field(
        default_factory=dict[Preset, tuple[PlainTest, ...]]
    )
    presets: tuple[Preset, ...] | None = None

    def premises(self, preset: Preset) -> tuple[PlainTest, ...]:
        """Return the premises in a preset."""
        return self.given_in.get(preset, self.given)

    def is_tested_in(self, preset: Preset) -> bool:
        """Return True if a preset tests the claim."""
        return self.presets is None or preset in self.presets


def plain_tests(test: ClaimTest) -> tuple[PlainTest, ...]:
    """Return the plain tests that a claim's test consists of."""
    return test.tests if isinstance(test, AllOf) else (test,)
