"""Chosen jobs in columns, with the addresses that remove and pin them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab_services.comparisons.side_by_side import MOST_COLUMNS, SideBySide, side_by_side
from adaptlab_services.results import given_answers
from adaptlab_services.results.attention_heads import jobs_with_maps
from adaptlab_services.results.given_answers import AnswerFilter

MOST_PAIRS = 3
"""Jobs whose maps and items are shown beside those of the baseline."""
FEWEST_LEFT = 2


@dataclass(frozen=True, slots=True)
class ColumnsView:
    """Jobs in columns, addresses by job, and `texts` of stored items."""

    sides: SideBySide
    without: Mapping[UUID, str]
    pinned: Mapping[UUID, str]
    with_maps: frozenset[UUID]
    with_answers: bool
    texts: Mapping[int, str]
    left_out: int


def columns_view(
    session: Session, job_ids: Sequence[UUID], baseline: UUID | None
) -> ColumnsView | None:
    """Return the columns, or None for less than two jobs."""
    sides = side_by_side(session, job_ids, baseline)
    if sides is None:
        return None
    shown = [column.id for column in sides.columns]
    pinned = baseline if baseline in shown else None
    answers = given_answers.page(session, sides.baseline, AnswerFilter(task_place=0)).data
    return ColumnsView(
        sides=sides,
        without={one: _address([j for j in job_ids if j != one], pinned) for one in shown},
        pinned={one: _address(job_ids, one) for one in shown},
        with_maps=jobs_with_maps(session, shown),
        with_answers=bool(answers),
        texts={row.item: row.prompt.text for row in answers},
        left_out=max(0, len(job_ids) - MOST_COLUMNS),
    )


def _address(job_ids: Sequence[UUID], baseline: UUID | None) -> str:
    """Return the address of the page with these jobs and this baseline."""
    pairs = {"jobs": ",".join(map(str, job_ids))}
    if baseline in job_ids:
        pairs["baseline"] = str(baseline)
    return f"/compare?{urlencode(pairs)}"
