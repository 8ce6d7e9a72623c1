"""The chart of a job's learning curves."""

from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.charts import Chart, Theme, learning_curves
from adaptlab.runs.events import MetricPoint
from adaptlab_services.jobs import jobs
from adaptlab_services.results import results

# Labels in the chart by the names of metrics.
LOSSES = {"train_loss": "training", "validation_loss": "validation"}
MOST_POINTS = 400  # per curve, about what a screen can resolve
MOST_DRAWN = 20_000  # points in all curves
LEAST_POINTS = 12
MOST_REPLICATES = 200  # drawn; the API has all


def curves_chart(session: Session, job_id: UUID, theme: Theme) -> Chart | None:
    """Return the losses of the replicates, or None before the first point."""
    spec = jobs.get(session, job_id).resolved_spec
    drawn = min(len(spec.seeds) * max(1, len(spec.training.trials)), MOST_REPLICATES)
    points = max(LEAST_POINTS, min(MOST_POINTS, MOST_DRAWN // (len(LOSSES) * drawn)))
    measured = results.metrics(session, job_id, tuple(LOSSES), range(drawn), points).data
    curves: dict[str, list[MetricPoint]] = {}
    for curve in measured:
        curves.setdefault(LOSSES[curve.name], []).extend(
            MetricPoint(replicate=curve.replicate, name="loss", step=step, value=value)
            for step, value in zip(curve.steps, curve.values, strict=True)
        )
    return learning_curves(curves, theme=theme, height=240) if curves else None
