"""Isolated label words as a job's check."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from adaptlab.measurements.theory_report import Check, Detail
from adaptlab.theory.demonstrated import by_replicate, used
from adaptlab.theory.isolation import Asked, answers, asked
from adaptlab.theory.observation import FrozenBase
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
    replicates, shown = subject.replicates, asked(check.task, check.samples, subject.seed)
    premises = tuple(used(check, replicates, "isolation", subject.seed))
    yield from premises
    if not all(premise.holds for premise in premises):
        return
    count = replicates[0].family.shape().layers
    layers = {"first": range(check.layers), "last": range(count - check.layers, count)}
    plain = _answers(check, replicates, shown)
    isolated = {
        (where, kind): _answers(check, replicates, shown, places, some)
        for where, some in layers.items()
        for kind, places in shown.places.items()
    }
    yield from _claims(check, shown, plain, isolated)


def _answers(
    check: Isolation,
    replicates: Sequence[FrozenBase],
    shown: Asked,
    places: Tensor | None = None,
    layers: Collection[int] = (),
) -> Tensor:
    """Return the answers [R, B] of all replicates."""
    return torch.stack(
        [answers(base, check.task, shown.items, places, layers) for base in replicates]
    )


def _claims(
    check: Isolation, shown: Asked, plain: Tensor, isolated: Mapping[tuple[str, str], Tensor]
) -> Iterator[Check]:
    """Compare the answers that isolation of labels changes with controls."""
    right = shown.items.targets[0, :, 0]
    details: dict[str, Detail] = {"samples": check.samples, "replicates": len(plain)}
    details |= {"layers": check.layers, "tokens": check.task.demonstrations}
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
        more |= {"low": found.seen_low, "high": found.seen_high, "opposite": 0.0}
        # The lower limit has to exceed one item of all.
        least = 1 / check.samples
        yield Check.at_least(name, claim, found.seen_low, least, **details, **more)
