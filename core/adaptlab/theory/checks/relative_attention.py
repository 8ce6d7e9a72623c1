"""Relative attention after training as a job's check."""

from collections.abc import Iterable, Iterator, Sequence

from adaptlab.plugins.method import Method
from adaptlab.runs.theory_report import Check, Detail
from adaptlab.theory.equations import BROKEN, ROUNDING, Deviation, equations_from
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.subject import Subject
from adaptlab.theory.trained_attention import moved
from adaptlab.theory_checks.relative_attention import RelativeAttention


@MEASURES.register("relative_attention")
def measure(check: RelativeAttention, subject: Subject) -> Iterable[Check]:
    """Report the worst replicate of every adaptation."""
    for label, files in subject.by_adaptation():
        method = subject.adaptations[files[0].adaptation].method
        deviations: list[tuple[Deviation, ...]] = []
        for file in files:
            adapted = subject.load(file)
            deviations.append(moved(adapted.base, adapted.parts(check.samples), adapted.attached))
        details: dict[str, Detail] = {
            "method": str(method.name),
            "samples": check.samples,
            "replicates": len(files),
            "seeds": tuple(file.seed for file in files),
        }
        for report in _reports(method, deviations, details):
            yield report.model_copy(update={"name": f"{report.name}{label}"})


def _reports(
    method: Method, each: Sequence[tuple[Deviation, ...]], details: dict[str, Detail]
) -> Iterable[Check]:
    """Return the checks that follow from what a method declares."""
    if method.first_layer_attention == "can_change":
        return (_moves(each, details),)
    worst = each[0]
    for layers in each[1:]:
        worst = tuple(a.worst(b) for a, b in zip(worst, layers, strict=True))
    if method.is_prefix:
        return equations_from(worst, details=details)
    return _unmoved(method, worst, details)


def _moves(each: Sequence[tuple[Deviation, ...]], details: dict[str, Detail]) -> Check:
    """Check that every replicate moves relative attention in some layer."""
    by_replicate = tuple(max(layer.sixth for layer in layers) for layers in each)
    by_layer = tuple(max(layer.sixth for layer in layers) for layers in zip(*each, strict=True))
    return Check.at_least(
        "relative-attention-moves",
        f"Equation 6 does not bind {details['method']}: what was trained moves relative attention "
        "in some layer whose input is held equal.",
        min(by_replicate),
        BROKEN,
        **details,
        moved_by_replicate=by_replicate,
        moved_by_layer=by_layer,
    )


def _unmoved(
    method: Method, layers: tuple[Deviation, ...], details: dict[str, Detail]
) -> Iterator[Check]:
    """Check equation 6 of a method other than a prefix that claims to keep it."""
    places = (("first-layer", "the first layer", layers[:1]), ("deeper-layers", "every deeper "
              "layer whose input is held equal", layers[1:]))  # fmt: skip
    for name, where, some in places:
        if some:
            yield Check.at_most(
                f"equation-6.{name}",
                f"Equation 6: {method.name} leaves relative attention over content unchanged in "
                f"{where}.",
                max(layer.sixth for layer in some),
                ROUNDING,
                **details,
                layers=len(some),
                least_taken=min(layer.least_taken for layer in some),
                most_taken=max(layer.most_taken for layer in some),
            )
