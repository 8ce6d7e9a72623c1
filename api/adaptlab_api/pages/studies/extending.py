"""Adding seeds to a study: how many would settle it, and what they cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.statistics.more_seeds import MOST_SEEDS
from adaptlab.studies.study import StudyExtension
from adaptlab.validation import validation_problems
from adaptlab_answers.studies import StudyPreview, StudyView
from adaptlab_api.pages.comparisons.tables import TableView
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

USUAL = 2
"""Seeds of the form that names no number."""


@dataclass(frozen=True, slots=True)
class MoreSeeds:
    """Further seeds that should settle a table, with their cost.

    `seconds` is the estimated time of all passes, None if it could not be estimated.
    """

    offered: int
    seconds: float | None = None


def offered_seeds(study: StudyView, tables: Sequence[TableView]) -> Mapping[int | None, MoreSeeds]:
    """Return the seeds to add, by the number of the table that offers them.

    A table offers them only if they should settle which of its methods is the best. A study with a
    question chooses its own.
    """
    most = MOST_SEEDS - len(present_seeds(study))
    if study.question is not None or study.cancelled_at is not None or not study.cells or most < 1:
        return {}
    likely = {table.number: _to_settle(table) for table in tables if table.comparison}
    return {
        number: MoreSeeds(seeds)
        for number, seeds in likely.items()
        if seeds is not None and seeds <= most
    }


def _to_settle(table: TableView) -> int | None:
    """Return the seeds that should settle all that seeds can settle there."""
    assert table.comparison is not None
    numbers = [cell.more_seeds for cell in table.comparison.cells]
    return max((number for number in numbers if number is not None), default=None)


def with_cost(
    session: Session, study: StudyView, offers: Mapping[int | None, MoreSeeds], rules: Rules
) -> Mapping[int | None, MoreSeeds]:
    """Return the offers with the time that they should take.

    There are none if the study cannot be extended, as without a plug-in that it names.
    """
    seconds: dict[int, float] = {}
    for number in {offer.offered for offer in offers.values()}:
        extension = further(study, number)
        try:
            plan = studies.preview_extension(session, str(study.id), extension, rules)
        except InvalidSpec:
            return {}
        seconds[number] = plan.seconds
    return {
        table: replace(offer, seconds=seconds[offer.offered]) for table, offer in offers.items()
    }


def present_seeds(study: StudyView) -> frozenset[int]:
    """Return the seeds that some method of a study has."""
    return frozenset(seed for cell in study.cells for job in cell.jobs for seed in job.seeds)


def extend_page(session: Session, name: str, more: int, rules: Rules) -> dict[str, object]:
    """Return the values of the page that shows the cost of more seeds.

    Raises `Absent`, `StateConflict` for a cancelled study, and `InvalidSpec`.
    """
    study = studies.get(session, name)
    extension = further(study, more)
    plan: StudyPreview = studies.preview_extension(session, name, extension, rules)
    present = len(present_seeds(study))
    return {
        "study": study,
        "plan": plan,
        "present": present,
        "more": more,
        "most": MOST_SEEDS - present,
        "seeds": extension.seeds,
    }


def further(study: StudyView, more: int) -> StudyExtension:
    """Return the extension by the next seeds that the study lacks.

    Raises `InvalidSpec` for none, or more than a job can have.
    """
    present = present_seeds(study)
    most = MOST_SEEDS - len(present)
    if not 1 <= more <= most:
        detail = f"{more} more seeds are not possible: the study has {len(present)} and can have "
        raise InvalidSpec(Problem("/seeds", "out_of_range", f"{detail}{MOST_SEEDS} in all."))
    free = (seed for seed in range(len(present) + more) if seed not in present)
    return StudyExtension(seeds=tuple(next(free) for _ in range(more)))


def extension_of(fields: Mapping[str, Sequence[str]]) -> StudyExtension:
    """Return the extension that a form confirms; raises `InvalidSpec`.

    It has further seeds, or the extension that a diagnosis proposes, as JSON. The seeds themselves
    are confirmed, so that a form that is sent twice adds them once.
    """
    if proposed := fields.get("extension", ()):
        return _proposed(proposed[0])
    texts = fields.get("seed", ())
    if not texts or len(texts) > MOST_SEEDS or not all(_is_seed(text) for text in texts):
        raise InvalidSpec(Problem("/seeds", "invalid", "The form has no seeds. Open it again."))
    return StudyExtension(seeds=tuple(int(text) for text in texts))


def _proposed(text: str) -> StudyExtension:
    try:
        return StudyExtension.model_validate_json(text)
    except ValidationError as error:
        raise InvalidSpec(*validation_problems(error.errors(), {})) from error


def _is_seed(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
