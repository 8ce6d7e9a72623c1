"""Verdicts on claims, with the figures behind them.

They rest on intervals over seeds like those run.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from adaptlab.figures import counted
from adaptlab.reproductions.claim import (
    AllOf,
    ClaimRole,
    ClaimTest,
    EveryTrialAtMost,
    PaperClaim,
    PlainTest,
    Preset,
    ScoreAtLeast,
    ScoreAtMost,
    VersionName,
    Wording,
    plain_tests,
)
from adaptlab.reproductions.claim_findings import ClaimFinding, Decision, sentence, undecided
from adaptlab.reproductions.claim_tests import decide_test
from adaptlab.reproductions.recipe import Recipe
from adaptlab.reproductions.recipe_results import (
    Missing,
    RecipeMeasurements,
    RecipeRow,
    row_of,
)

MOST_SHOWN = 2
"""Tests of a claim whose evidence is given in full."""


class ClaimVerdict(Decision):
    """The finding on a claim in one wording, and on its controls."""

    claim: str
    wording: VersionName
    role: ClaimRole = "paper"
    text: str
    controls: tuple[Decision, ...] = ()


def claim_verdicts(
    recipe: Recipe, measured: RecipeMeasurements, preset: Preset = "quick"
) -> tuple[ClaimVerdict, ...]:
    """Return a verdict for every claim of a preset, in each wording.

    Each verdict stands alone, at a confidence of 95 %, without correction for the number of claims.
    """
    return tuple(
        _verdict(claim, name, wording, claim.premises(preset), recipe, measured)
        for claim in recipe.claims
        if claim.is_tested_in(preset)
        for name, wording in claim.wordings.items()
    )


def _verdict(
    claim: PaperClaim,
    name: VersionName,
    wording: Wording,
    premises: Sequence[PlainTest],
    recipe: Recipe,
    measured: RecipeMeasurements,
) -> ClaimVerdict:
    """Return the finding of a wording, undecided without its premises."""
    tests = plain_tests(wording.test)
    decision = decide(wording.test, recipe, measured)
    given = tuple(decide_test(test, recipe, measured) for test in premises)
    controls = tuple(_control(test, tests, recipe, measured) for test in claim.controls)
    needed = (*given, *controls) if decision.finding == "holds" else given
    if decision.finding in ("holds", "fails", "reversed"):
        decision = _gated(decision, [one for one in needed if one.finding != "holds"])
    return ClaimVerdict(
        claim=claim.id,
        wording=name,
        role=claim.role,
        text=wording.text,
        controls=(*given, *controls),
        **dict(decision),
    )


def _gated(decision: Decision, unmet: Sequence[Decision]) -> Decision:
    """Return the decision, or `undecided` if a control is not met."""
    if not unmet:
        return decision
    reasons = "; ".join(dict.fromkeys(control.evidence.removesuffix(".") for control in unmet))
    evidence = decision.evidence.removesuffix(".")
    return undecided(f"{evidence}; undecided, because a control is not met: {reasons}")


def _control(
    test: PlainTest, failures: Sequence[PlainTest], recipe: Recipe, measured: RecipeMeasurements
) -> Decision:
    """Return the finding of a control of no more effort than what failed."""
    decision = decide_test(test, recipe, measured)
    if not isinstance(test, ScoreAtLeast) or decision.finding != "holds":
        return decision
    control = row_of(recipe, measured, test.row)
    labels = [
        failure.row for failure in failures if isinstance(failure, ScoreAtMost | EveryTrialAtMost)
    ]
    others = [(label, row_of(recipe, measured, label)) for label in dict.fromkeys(labels)]
    for label, other in others:
        if isinstance(control, Missing) or isinstance(other, Missing) or label == test.row:
            continue
        if other.method is not None and control.method is not None:
            decision = _at_equal_effort(decision, test.row, control, label, other)
    return decision


def _at_equal_effort(
    decision: Decision, name: str, control: RecipeRow, other_name: str, other: RecipeRow
) -> Decision:
    """Return a control's finding with both efforts.

    It is undecided if the control had more.
    """
    text = (
        f"{decision.evidence.removesuffix('.')}; {name} trained {_effort(control)}, {other_name} "
        f"{_effort(other)}"
    )
    if (control.steps or 0) > (other.steps or 0) or _trials(control) > _trials(other):
        return undecided(f"{text}, so the control had more effort")
    return Decision(finding=decision.finding, evidence=sentence(text))


def _effort(row: RecipeRow) -> str:
    trials = _trials(row)
    return (
        f"{row.parameters or 0:,} parameters for {row.steps or 0:,} steps in "
        f"{counted(trials, 'trial')} per seed"
    )


def _trials(row: RecipeRow) -> int:
    """Return the largest number of trials of a seed."""
    return max(Counter(trial.seed for trial in row.trials).values(), default=1)


def decide(test: ClaimTest, recipe: Recipe, measured: RecipeMeasurements) -> Decision:
    """Return the finding of a test or of several together.

    All, none or part of an interval is on the claimed side. With several tests, the claim holds if
    all hold, is reversed if all are, and otherwise fails if one fails.
    """
    decisions = [decide_test(plain, recipe, measured) for plain in plain_tests(test)]
    if not isinstance(test, AllOf):
        return decisions[0]
    finding = _joint([decision.finding for decision in decisions])
    return Decision(finding=finding, evidence="; ".join(_evidence(decisions)) + ".")


def _evidence(decisions: Sequence[Decision]) -> Iterator[str]:
    """Yield the evidence of several tests: all of a few, else what decides.

    A reason that several tests share is given once.
    """
    reasons = {one.evidence.removesuffix("."): one.finding == "holds" for one in decisions}
    if len(reasons) <= MOST_SHOWN:
        yield from reasons
        return
    held = sum(one.finding == "holds" for one in decisions)
    yield f"{held} of {len(decisions)} tests hold"
    deciding = [text for text, holds in reasons.items() if not holds] or list(reasons)[:1]
    yield from deciding[:MOST_SHOWN]
    if held < len(decisions) and (more := len(deciding) - MOST_SHOWN) > 0:
        yield f"and {more} more"


def _joint(findings: Sequence[ClaimFinding]) -> ClaimFinding:
    if set(findings) == {"reversed"}:
        return "reversed"
    if {"fails", "reversed"} & set(findings):
        return "fails"
    if "not_measured" in findings:
        return "not_measured"
    return "undecided" if "undecided" in findings else "holds"
