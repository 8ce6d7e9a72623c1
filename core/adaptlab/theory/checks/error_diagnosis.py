"""Confusion predicted by keys as a job's check."""

from collections.abc import Iterable

import torch

from adaptlab.runs.theory_report import Check, Detail
from adaptlab.statistics.correlation import rho_limits, spearman
from adaptlab.theory.demonstrated import used, views
from adaptlab.theory.label_keys import ClassPairs, observed, pairs_of_classes
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.error_diagnosis import ErrorDiagnosis

LEAST = 1e-6
"""What the lower limit of rho must exceed."""


@MEASURES.register("error_diagnosis")
def measure(check: ErrorDiagnosis, subject: Subject) -> Iterable[Check]:
    """Report whether demonstrations are used; if so, rho."""
    replicates = views(check, subject)
    premises = tuple(used(check, replicates, "error_diagnosis"))
    yield from premises
    if not all(premise.holds for premise in premises):
        return
    pairs = [
        pairs_of_classes(check.task, view.shown, observed(view.base, view.shown), check.directions)
        for view in replicates
    ]
    yield _claim(check, pairs, {**premises[0].details})


def _claim(check: ErrorDiagnosis, pairs: list[ClassPairs], details: dict[str, Detail]) -> Check:
    kept = {name: details[name] for name in ("samples", "replicates", "accuracy")}
    layers, count = pairs[0].closeness.shape
    decisive = check.layer_of(layers)
    # Equal values on one side say nothing, as a rho of 0 does.
    rhos = [
        [spearman(closeness.tolist(), one.confusion.tolist()) or 0.0 for closeness in one.closeness]
        for one in pairs
    ]
    kept["pairs"], kept["layer"] = count, decisive
    kept["fewest_episodes"] = min(int(one.episodes.min()) for one in pairs)
    kept["confusion_mean"] = tuple(float(one.confusion.mean()) for one in pairs)
    kept["confusion_largest"] = tuple(float(one.confusion.max()) for one in pairs)
    kept["rho_by_layer"] = tuple(torch.tensor(rhos, dtype=torch.float64).mean(0).tolist())
    kept["rho"] = tuple(own[decisive] for own in rhos)
    low, high = rho_limits([own[decisive] for own in rhos], count)
    kept["low"], kept["high"], kept["opposite"] = low, high, 0.0
    return Check.at_least(
        "error_diagnosis.rho",
        "The closer the keys at the labels of two classes, the more often the classes are "
        "confused: the lower limit of Spearman's rho over pairs of classes is above 0.",
        low,
        LEAST,
        **kept,
    )
