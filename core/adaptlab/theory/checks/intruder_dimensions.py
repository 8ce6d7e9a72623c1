"""Intruder dimensions as a job's check."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from adaptlab.errors import InvalidSpec, NotMergeable, Problem
from adaptlab.runs.inputs import PlacedAdapterFile
from adaptlab.runs.theory_report import Check
from adaptlab.theory.intruders import intruders_by_site
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.intruder_dimensions import IntruderDimensions

MOST_SITES = 64
"""Sites with a detail of their own: those with the most intruders."""


@MEASURES.register("intruder_dimensions")
def measure(check: IntruderDimensions, subject: Subject) -> Iterable[Check]:
    """Report the number of intruders per adaptation, the mean over replicates."""
    for label, files in subject.by_adaptation():
        counts = [_of(check, subject, file) for file in files]
        totals = tuple(sum(by_site.values()) for by_site in counts)
        yield Check.at_most(
            f"intruder-dimensions{label}",
            "Shuttleworth et al., section 3: the first left singular vectors of tuned matrices "
            "resemble some of the base's.",
            fmean(totals),
            0.0,
            directions=check.directions,
            similarity=check.similarity,
            matrices=len(counts[0]),
            replicates=len(files),
            seeds=tuple(file.seed for file in files),
            intruders_by_replicate=totals,
            **_by_site(counts),
        )


def _by_site(counts: Sequence[dict[str, int]]) -> dict[str, tuple[int, ...]]:
    """Return the intruders by replicate of the sites that have most."""
    most = sorted(counts[0], key=lambda site: -sum(one[site] for one in counts))[:MOST_SITES]
    return {f"intruders_at_{site}": tuple(one[site] for one in counts) for site in most}


def _of(check: IntruderDimensions, subject: Subject, file: PlacedAdapterFile) -> dict[str, int]:
    adapted = subject.load(file)
    trained = {name: tensor[0] for name, tensor in adapted.trained.items()}
    try:
        return intruders_by_site(
            adapted.measured.method, adapted.base, trained, check.directions, check.similarity
        )
    except NotMergeable as error:
        detail = f"Intruder dimensions are undefined for {adapted.measured.method.name}. {error}"
        raise InvalidSpec(Problem("/adaptation", "no_changed_weights", detail)) from error
