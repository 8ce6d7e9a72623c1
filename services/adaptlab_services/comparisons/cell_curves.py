"""Learning curves of the methods in one cell of a comparison."""

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.comparisons.comparison import ComparisonCell
from adaptlab.comparisons.table_comparison import TableComparison
from adaptlab.runs.events import MetricPoint
from adaptlab_services.results import results

MOST_JOBS = 24
MOST_POINTS = 120
"""Per curve: what half a page can resolve."""
SHOWN_METRIC = "train_loss"


def cell_curves(
    session: Session, table: TableComparison, cell: ComparisonCell
) -> Mapping[str, tuple[MetricPoint, ...]]:
    """Return the training losses by method, in the order of the cell's rows.

    They are those of the trial that each seed keeps. Methods that were not trained here, and those
    beyond `MOST_JOBS` jobs, are left out.
    """
    behind = {method.label: method for method in table.methods}
    curves: dict[str, tuple[MetricPoint, ...]] = {}
    jobs = 0
    for row in cell.rows:
        jobs += len(behind[row.label].jobs)
        if jobs > MOST_JOBS:
            break
        points = _points(session, behind[row.label].jobs)
        if points:
            curves[row.method] = points
    return curves


def _points(session: Session, job_ids: tuple[UUID, ...]) -> tuple[MetricPoint, ...]:
    """Return the points of several jobs, numbering their replicates on."""
    points: list[MetricPoint] = []
    first = 0
    for job_id in job_ids:
        trained = results.replicates(session, job_id).data
        kept = [one.replicate for one in trained if one.selected]
        if not kept:
            continue
        for curve in results.metrics(session, job_id, (SHOWN_METRIC,), kept, MOST_POINTS).data:
            number = first + curve.replicate
            points += (
                MetricPoint(replicate=number, name="training_loss", step=step, value=value)
                for step, value in zip(curve.steps, curve.values, strict=True)
            )
        first += 1 + max(one.replicate for one in trained)
    return tuple(points)
