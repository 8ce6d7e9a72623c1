"""Isolated label words as a job's check."""

from collections.abc import Iterable, Iterator, Mapping

from torch import Tensor

from adaptlab.measurements.theory_report import Check, Detail
from adaptlab.theory.demonstrated import used
from adaptlab.theory.isolation import Asked, answers, asked, mean_limits
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
    base, task = subject.measured_base, check.task
    shown = asked(task, check.samples, subject.seed)
    plain = answers(base, task, shown.items)
    premises = tuple(used(check, base, "isolation", subject.seed))
    yield from premises
    if not all(premise.holds for premise in premises):
        return
    count = base.family.shape().layers
    layers = {"first": range(check.layers), "last": range(count - check.layers, count)}
    isolated = {
        (where, kind): answers(base, task, shown.items, places, some)
        for where, some in layers.items()
        for kind, places in shown.places.items()
    }
    yield from _claims(check, shown, plain, isolated)


def _claims(
    check: Isolation, shown: Asked, plain: Tensor, isolated: Mapping[tuple[str, str], Tensor]
) -> Iterator[Check]:
    """Compare the answers that isolation of labels changes with controls."""
    right = shown.items.targets[0, :, 0]
    details: dict[str, Detail] = {"samples": check.samples, "layers": check.layers}
    details["tokens"] = check.task.demonstrations
    details["accuracy"] = float((plain == right).double().mean())
    for (where, kind), given in isolated.items():
        details[f"loyalty_{where}_{kind}"] = float((given == plain).double().mean())
        details[f"accuracy_{where}_{kind}"] = float((given == right).double().mean())
    changed = {key: (given != plain).double() for key, given in isolated.items()}
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
        low, high = mean_limits(labels - others)
        more: dict[str, Detail] = {"difference": float((labels - others).mean())}
        more |= {"difference_low": low, "difference_high": high}
        # The lower limit has to exceed one item of all.
        yield Check.at_least(name, claim, low, 1 / check.samples, **details, **more)
