"""Learning curves as a chart: the page's script fetches it and hands it to the chart library."""

from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.charts import Chart, Theme, learning_curves
from adaptlab.measurements.results import MetricPoint
from adaptlab_services.jobs import jobs
from adaptlab_services.results import results

# By the metric's name as the trainer reports it: the label under which it is drawn.
LOSSES = {"train_loss": "training", "validation_loss": "validation"}
MOST_POINTS = 400  # a curve: more than a screen has pixels to tell apart
MOST_DRAWN = 20_000  # points of all curves together
LEAST_POINTS = 12
MOST_REPLICATES = 200  # which are drawn; the others are in the API


def curves_chart(session: Session, job_id: UUID, theme: Theme) -> Chart | None:
    """Training and validation loss of the replicates; None before the first point."""
    spec = jobs.get(session, job_id).resolved_spec
    drawn = min(len(spec.seeds) * max(1, len(spec.training.trials)), MOST_REPLICATES)
    points = max(LEAST_POINTS, min(MOST_POINTS, MOST_DRAWN // (len(LOSSES) * drawn)))
    found = results.metrics(session, job_id, tuple(LOSSES), range(drawn), points).data
    curves: dict[str, list[MetricPoint]] = {}
    for curve in found:
        curves.setdefault(LOSSES[curve.name], []).extend(
            MetricPoint(replicate=curve.replicate, name="loss", step=step, value=value)
            for step, value in zip(curve.steps, curve.values, strict=True)
        )
    return learning_curves(curves, theme=theme, height=240) if curves else None
