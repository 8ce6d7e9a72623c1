"""Saliency of label words as a job's check."""

from collections.abc import Iterable

from torch import Tensor

from adaptlab.measurements.theory_report import Check, Detail
from adaptlab.theory.demonstrated import used
from adaptlab.theory.isolation import asked, mean_limits
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.saliency import FLOWS, flows
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.saliency import Saliency

LEAST = 1e-6
"""The share of saliency that a difference must exceed."""


@MEASURES.register("saliency")
def measure(check: Saliency, subject: Subject) -> Iterable[Check]:
    """Report whether demonstrations are used; if so, flows of saliency."""
    base = subject.measured_base
    premises = tuple(used(check, base, "saliency", subject.seed))
    yield from premises
    if not all(premise.holds for premise in premises):
        return
    shares = flows(base, check.task, asked(check.task, check.samples, subject.seed).items)
    details: dict[str, Detail] = {"samples": check.samples}
    details["accuracy"] = premises[0].details["accuracy"]
    for place, name in enumerate(FLOWS):
        details[f"{name}_by_layer"] = tuple(shares[..., place].mean(1).tolist())
    into, out_of, _, beside = shares.unbind(-1)
    yield _larger(
        "saliency.first-layer",
        "In the first layer, more saliency flows from the text into labels than from labels to the "
        "query.",
        into[0] - out_of[0],
        details,
    )
    yield _larger(
        "saliency.last-layer",
        "In the last layer, labels pass more saliency to the query than other tokens do.",
        out_of[-1] - beside[-1],
        details,
    )


def _larger(name: str, claim: str, differences: Tensor, details: dict[str, Detail]) -> Check:
    """Check that the mean of differences [B] of shares is above 0."""
    low, high = mean_limits(differences)
    more: dict[str, Detail] = {"difference_low": low, "difference_high": high}
    return Check.at_least(name, claim, low, LEAST, **details, **more)
