"""Verdicts on claims by intervals over seeds like those run, with the figures behind them."""

from collections import Counter
from collections.abc import Sequence

from adaptlab.reproductions.claim import (
    AllOf,
    Claim,
    ClaimTest,
    EveryTrialAtMost,
    PlainTest,
    ScoreAtLeast,
    ScoreAtMost,
    Wording,
    WordingName,
    plain_tests,
)
from adaptlab.reproductions.claim_tests import (
    ClaimFinding,
    Decision,
    decide_test,
    sentence,
    undecided,
)
from adaptlab.reproductions.recipe import Recipe
from adaptlab.reproductions.recipe_results import (
    Measured,
    MeasuredRow,
    Missing,
    row_of,
)
from adaptlab.wording import counted


class ClaimVerdict(Decision):
    """The finding on a claim in one of its wordings, and on each of its controls."""

    claim: str
    wording: WordingName
    in_paper: bool = True
    text: str
    controls: tuple[Decision, ...] = ()


def claim_verdicts(recipe: Recipe, measured: Measured) -> tuple[ClaimVerdict, ...]:
    """A verdict for every claim of the recipe in each wording that has a test of its own.

    Each is for itself, at a confidence of 95 %; nothing is corrected for the number of claims.
    """
    return tuple(
        _verdict(claim, name, wording, recipe, measured)
        for claim in recipe.claims
        for name, wording in claim.wordings().items()
    )


def _verdict(
    claim: Claim, name: WordingName, wording: Wording, recipe: Recipe, measured: Measured
) -> ClaimVerdict:
    """The finding of the wording's test, undecided where what it takes for granted is not shown."""
    tests = plain_tests(wording.test)
    found = decide(wording.test, recipe, measured)
    given = tuple(decide_test(one, recipe, measured) for one in claim.given)
    controls = tuple(_control(one, tests, recipe, measured) for one in claim.controls)
    needed = (*given, *controls) if found.finding == "reproduced" else given
    if found.finding in ("reproduced", "not_reproduced"):
        found = _gated(found, [one for one in needed if one.finding != "reproduced"])
    return ClaimVerdict(
        claim=claim.id,
        wording=name,
        in_paper=claim.in_paper,
        text=wording.text,
        controls=(*given, *controls),
        **dict(found),
    )


def _gated(found: Decision, unmet: Sequence[Decision]) -> Decision:
    """The decision, undecided where a control is not met."""
    if not unmet:
        return found
    reasons = "; ".join(dict.fromkeys(one.evidence.removesuffix(".") for one in unmet))
    return undecided(
        f"{found.evidence.removesuffix('.')}; not decided, because a control is not met: {reasons}"
    )


def _control(
    test: PlainTest, failures: Sequence[PlainTest], recipe: Recipe, measured: Measured
) -> Decision:
    """The finding of a control, which may have had no more steps and trials than what failed."""
    found = decide_test(test, recipe, measured)
    if not isinstance(test, ScoreAtLeast) or found.finding != "reproduced":
        return found
    control = row_of(recipe, measured, test.row)
    labels = [one.row for one in failures if isinstance(one, ScoreAtMost | EveryTrialAtMost)]
    others = [(label, row_of(recipe, measured, label)) for label in dict.fromkeys(labels)]
    for label, other in others:
        if isinstance(control, Missing) or isinstance(other, Missing) or label == test.row:
            continue
        if other.method is not None and control.method is not None:
            found = _at_equal_effort(found, test.row, control, label, other)
    return found


def _at_equal_effort(
    found: Decision, name: str, control: MeasuredRow, other_name: str, other: MeasuredRow
) -> Decision:
    """The control's finding with both efforts; undecided where the control had more of it."""
    text = (
        f"{found.evidence.removesuffix('.')}; {name} trained {_effort(control)}, {other_name} "
        f"{_effort(other)}"
    )
    if (control.steps or 0) > (other.steps or 0) or _trials(control) > _trials(other):
        return undecided(f"{text}, so the control had more effort")
    return Decision(finding=found.finding, evidence=sentence(text))


def _effort(row: MeasuredRow) -> str:
    trials = _trials(row)
    return (
        f"{row.parameters or 0:,} parameters for {row.steps or 0:,} steps in "
        f"{counted(trials, 'trial')} per seed"
    )


def _trials(row: MeasuredRow) -> int:
    """The largest number of trials that a seed had."""
    return max(Counter(trial.seed for trial in row.trials).values(), default=1)


def decide(test: ClaimTest, recipe: Recipe, measured: Measured) -> Decision:
    """The finding of a test: the claimed side holds the whole interval, none of it, or part of it.

    Of several tests the claim is reproduced if all are, and not if any is not.
    """
    found = [decide_test(one, recipe, measured) for one in plain_tests(test)]
    if not isinstance(test, AllOf):
        return found[0]
    told = dict.fromkeys(one.evidence.removesuffix(".") for one in found)  # each reason once
    evidence = "; ".join(told) + "."
    return Decision(finding=_joint([one.finding for one in found]), evidence=evidence)


def _joint(findings: Sequence[ClaimFinding]) -> ClaimFinding:
    if "not_reproduced" in findings:
        return "not_reproduced"
    if "not_measured" in findings:
        return "not_measured"
    return "undecided" if "undecided" in findings else "reproduced"
