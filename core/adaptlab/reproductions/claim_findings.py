"""Findings on the tests of claims, and doubts that keep them open."""

from collections.abc import Iterator, Sequence
from typing import Literal

from adaptlab.comparisons.verdict import LEAST_SEEDS
from adaptlab.figures import counted, percent
from adaptlab.reproductions.recipe_results import RecipeRow, because
from adaptlab.statistics import unseen_failure_rate
from adaptlab.statistics.leads import lead
from adaptlab.statistics.samples import Sample
from adaptlab.values import Value

LEVEL = 0.95
ClaimFinding = Literal["holds", "fails", "reversed", "undecided", "not_measured"]
"""`reversed`: an order is claimed, and the opposite order is shown."""


class Decision(Value):
    """The finding of one test, and a sentence with the figures behind it."""

    finding: ClaimFinding
    evidence: str


def decision(
    text: str, *, holds: bool, fails: bool, doubts: Sequence[str], is_reversed: bool = False
) -> Decision:
    """Return the finding of an interval, `undecided` if there are doubts.

    A failure `is_reversed` if the opposite of the claim is shown.
    """
    if doubts:
        return undecided(f"{text}; undecided, because {'; '.join(dict.fromkeys(doubts))}")
    failure: ClaimFinding = "reversed" if is_reversed else "fails"
    finding: ClaimFinding = "holds" if holds else failure if fails else "undecided"
    return Decision(finding=finding, evidence=sentence(text))


def few_seeds(seeds: int) -> Iterator[str]:
    """Yield a reason if there are too few seeds to decide a mean."""
    if seeds < LEAST_SEEDS:
        verb = "is" if seeds == 1 else "are"
        yield f"{counted(seeds, 'seed')} {verb} too few (at least {LEAST_SEEDS} are needed)"


def unmeasured_seeds(row: RecipeRow, seeds: Sequence[int]) -> Iterator[str]:
    """Yield a reason if seeds lack a score: they may be those that failed."""
    if missing := set(row.seeds) - set(seeds):
        verb = "is" if len(missing) == 1 else "are"
        yield (
            f"{len(missing)} of {counted(len(row.seeds), 'seed')} of "
            f"{row.method or row.base_model} {verb} not measured{because(row.missing)}"
        )


def not_measured(text: str) -> Decision:
    """Return the finding `not_measured` with the reason."""
    return Decision(finding="not_measured", evidence=sentence(text))


def undecided(text: str) -> Decision:
    """Return the finding `undecided` with a sentence of reasons."""
    return Decision(finding="undecided", evidence=sentence(text))


def sentence(text: str) -> str:
    """Return the text with a capital letter and one full stop."""
    return text[0].upper() + text[1:].rstrip(".") + "."


def level_of(*rows: RecipeRow) -> float:
    """Return the confidence of a test, of which every look has a share.

    Seeds that were added after others were seen are a further look (Bonferroni).
    """
    return 1 - (1 - LEVEL) / max(row.looks for row in rows)


def is_shown(first: Sample, second: Sample, level: float) -> bool:
    """Return True if seeds of the first are shown to beat the second."""
    return lead(first, second).holds((1 - level) / 2)


def interval_name(level: float) -> str:
    """Return the name of an interval, with the reason for another level."""
    looks = round((1 - LEVEL) / (1 - level))
    why = "" if looks == 1 else f" (seeds were added {counted(looks - 1, 'time')})"
    return f"{100 * level:.4g} % interval{why}"


def unseen_seeds(seeds: int) -> str:
    """Return the clause on other seeds, which may fail unseen."""
    rate = percent(unseen_failure_rate(seeds, LEVEL), 0)
    return f"up to {rate} of other seeds may behave differently"


def share_text(share: float) -> str:
    """Return a share in per cent.

    Below 1 % it has two digits, so that 0.04 % is not 0.0 %.
    """
    value = 100 * share
    if 0 < value < 0.01:
        return "below 0.01 %"
    return f"{value:.2g} %" if 0 < value < 1 else percent(share)


def points_text(share: float) -> str:
    """Return a difference of shares in points."""
    return f"{100 * share:.1f} points"
