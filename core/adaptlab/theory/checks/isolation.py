"""Isolated label words as a job's check."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from adaptlab.runs.theory_report import Check, Detail
from adaptlab.theory.asking import Asked
from adaptlab.theory.demonstrated import View, by_replicate, used, views
from adaptlab.theory.isolation import answers
from adaptlab.theory.over_replicates import difference_of_shares
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.isolation import Isolation

CONTROLS = {
    "random": "random words",
    "separators": "the separators before them",
    "after": "the line breaks after them",
}


@MEASURES.register("isolation")
def measure(check: Isolation, subject: Subject) -> Iterable[Check]:
    """Report whether demonstrations are used and, if so, what labels do."""
    replicates = views(check, subject)
    premises = tuple(used(check, replicates, "isolation"))
    yield from premises
    if not all(premise.holds for premise in premises):
        return
    count = subject.measured_base.family.shape().layers
    layers = {"first": range(check.layers), "last": range(count - check.layers, count)}
    plain = torch.stack([answers(view.base, view.shown) for view in replicates])
    isolated = {
        (where, kind): _isolated(replicates, kind, some)
        for where, some in layers.items()
        for kind in replicates[0].shown.places
    }
    yield from _claims(check, replicates[0].shown, plain, isolated)


def _isolated(replicates: Sequence[View], kind: str, layers: Collection[int]) -> Tensor:
    """Return the answers [R, B] while tokens of a kind read only themselves."""
    return torch.stack(
        [answers(view.base, view.shown, view.shown.places[kind], layers) for view in replicates]
    )


def _claims(
    check: Isolation, shown: Asked, plain: Tensor, isolated: Mapping[tuple[str, str], Tensor]
) -> Iterator[Check]:
    """Compare the answers that isolation of labels changes with controls."""
    right = shown.right
    details: dict[str, Detail] = {"samples": shown.count, "replicates": len(plain)}
    details |= {"layers": check.layers, "tokens": shown.demonstrations}
    details["accuracy"] = by_replicate(plain == right)
    for (where, kind), given in isolated.items():
        details[f"loyalty_{where}_{kind}"] = by_replicate(given == plain)
        details[f"accuracy_{where}_{kind}"] = by_replicate(given == right)
    changed = {key: given != plain for key, given in isolated.items()}
    labels, count = changed["first", "labels"], check.layers
    compared = {
        f"isolation.first-layers.{kind}": (
            changed["first", kind],
            f"In the first layers ({count}), isolated label words change more answers than as many "
            f"isolated tokens of another kind: {noun}.",
        )
        for kind, noun in CONTROLS.items()
    }
    if count > 1:  # what the last layer alone computes at the labels reaches no answer
        compared["isolation.last-layers"] = (
            changed["last", "labels"],
            f"Isolated label words change more answers in the first layers ({count}) than in the "
            "last ones.",
        )
    for name, (others, claim) in compared.items():
        found = difference_of_shares(labels, others)
        more: dict[str, Detail] = {"difference": found.difference}
        more |= {"low": found.low, "high": found.high, "opposite": 0.0}
        # The lower limit has to exceed one item of all.
        least = 1 / shown.count
        yield Check.at_least(name, claim, found.low, least, **details, **more)
