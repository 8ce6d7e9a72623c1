"""Attention to label words as a job's check."""

from collections.abc import Iterable

import torch
from torch import Tensor

from adaptlab.runs.theory_report import Check, Detail
from adaptlab.theory.demonstrated import used, views
from adaptlab.theory.label_attention import cumulative_share, label_auc
from adaptlab.theory.over_replicates import mean_limits
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.label_attention import LabelAttention

LEAST = 1e-6
"""What a difference of AUC must exceed."""


@MEASURES.register("label_attention")
def measure(check: LabelAttention, subject: Subject) -> Iterable[Check]:
    """Report whether demonstrations are used; if so, attention to labels."""
    replicates = views(check, subject)
    premises = tuple(used(check, replicates, "label_attention"))
    yield from premises
    if not all(premise.holds for premise in premises):
        return
    auc = torch.stack([label_auc(view.base, view.shown) for view in replicates])
    yield from _claims(auc, {**premises[0].details})


def _claims(auc: Tensor, details: dict[str, Detail]) -> Iterable[Check]:
    """Compare the AUC [R, L, B] of layers with ½ and with each other."""
    kept = {name: details[name] for name in ("samples", "replicates", "accuracy")}
    means, layers = auc.mean(2), auc.shape[1]
    for layer in range(layers):
        kept[f"auc_layer_{layer}"] = tuple(means[:, layer].tolist())
    kept["auc_by_layer"] = tuple(means.mean(0).tolist())
    kept["cumulative_share"] = tuple(cumulative_share(means.mean(0)).tolist())
    yield _larger(
        "label_attention.last-layer",
        "In the last layer, the query attends more to the label that it answers than to another "
        "label of the episode: AUC is above one half.",
        auc[:, -1] - 0.5,
        kept,
    )
    if layers > 1:
        half = layers // 2
        yield _larger(
            "label_attention.rises",
            "AUC is higher in the last layer than in the first.",
            auc[:, -1] - auc[:, 0],
            kept,
        )
        yield _larger(
            "label_attention.late",
            "The later half of the layers has more of the sum of AUC above one half than the "
            "earlier half.",
            auc[:, layers - half :].sum(1) - auc[:, :half].sum(1),
            kept,
        )


def _larger(name: str, claim: str, differences: Tensor, details: dict[str, Detail]) -> Check:
    """Check that the mean of differences [R, B] is above 0."""
    low, high = mean_limits(differences)
    more: dict[str, Detail] = {"difference": float(differences.mean()), "low": low, "high": high}
    return Check.at_least(name, claim, low, LEAST, **details, **more, opposite=0.0)
