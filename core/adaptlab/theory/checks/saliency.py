"""Saliency of label words as a job's check."""

from collections.abc import Iterable

import torch
from torch import Tensor

from adaptlab.runs.theory_report import Check, Detail
from adaptlab.theory.demonstrated import used, views
from adaptlab.theory.over_replicates import mean_limits
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.saliency import FLOWS, flows
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.saliency import Saliency

LEAST = 1e-6
"""The share of saliency that a difference must exceed."""


@MEASURES.register("saliency")
def measure(check: Saliency, subject: Subject) -> Iterable[Check]:
    """Report whether demonstrations are used; if so, flows of saliency."""
    replicates = views(check, subject)
    premises = tuple(used(check, replicates, "saliency"))
    yield from premises
    if not all(premise.holds for premise in premises):
        return
    shares = torch.stack([flows(view.base, view.shown) for view in replicates])
    yield from _claims(shares, {**premises[0].details})


def _claims(shares: Tensor, details: dict[str, Detail]) -> Iterable[Check]:
    """Compare the shares [R, L, B, 4] of flows in the first and last layer."""
    kept = {name: details[name] for name in ("samples", "replicates", "accuracy")}
    means = shares.mean(2)
    for place, name in enumerate(FLOWS):
        kept[f"{name}_by_layer"] = tuple(means[..., place].mean(0).tolist())
        for layer in (0, -1):
            where = "last" if layer else "first"
            kept[f"{name}_{where}_layer"] = tuple(means[:, layer, place].tolist())
    into, out_of, others, beside = shares.unbind(-1)
    yield _larger(
        "saliency.first-layer",
        "In the first layer, more saliency flows from the text into labels than from labels to the "
        "query.",
        into[:, 0] - out_of[:, 0],
        kept,
    )
    yield _larger(
        "saliency.first-layer.others",
        "In the first layer, more saliency flows into labels than between other tokens.",
        into[:, 0] - others[:, 0],
        kept,
    )
    yield _larger(
        "saliency.last-layer",
        "In the last layer, labels pass more saliency to the query than other tokens do.",
        out_of[:, -1] - beside[:, -1],
        kept,
    )
    if into.shape[1] > 2:  # nothing flows into labels in the last layer of any model
        yield _larger(
            "saliency.into-labels",
            "The share of saliency that flows into labels is larger in the first layer than in the "
            "last but one.",
            into[:, 0] - into[:, -2],
            kept,
        )


def _larger(name: str, claim: str, differences: Tensor, details: dict[str, Detail]) -> Check:
    """Check that the mean of differences [R, B] of shares is above 0."""
    low, high = mean_limits(differences)
    more: dict[str, Detail] = {"difference": float(differences.mean()), "low": low, "high": high}
    return Check.at_least(name, claim, low, LEAST, **details, **more, opposite=0.0)
