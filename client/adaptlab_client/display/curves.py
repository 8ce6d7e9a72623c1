"""The learning curves of a job as rows, data frame and picture."""

from collections.abc import Iterator
from typing import Any

from adaptlab_answers.results import Curve
from adaptlab_client.display.frames import frame
from adaptlab_client.display.pictures import Picture

COLUMNS = ("name", "replicate", "step", "value")


class Curves(tuple[Curve, ...]):
    """The requested curves, one per metric and replicate."""

    __slots__ = ()

    def rows(self) -> Iterator[dict[str, str | int | float | None]]:
        """Yield one row per point; values that were not finite are None."""
        for curve in self:
            for step, value in zip(curve.steps, curve.values, strict=True):
                yield {
                    "name": curve.name,
                    "replicate": curve.replicate,
                    "step": step,
                    "value": value,
                }

    def to_pandas(self) -> Any:  # a pandas.DataFrame; pandas is optional
        """Return the rows as a data frame; raises `ImportError` without pandas."""
        return frame(self.rows(), COLUMNS)

    def plot(self, name: str | None = None) -> Picture:
        """Return a picture of one metric over the steps, by default the first.

        Raises `ValueError` if there is no such curve.
        """
        from adaptlab.charts import learning_curves

        metrics = [*dict.fromkeys(curve.name for curve in self)]
        metric = name or next(iter(metrics), None)
        if metric not in metrics:
            available = ", ".join(metrics) or "none"
            raise ValueError(f"There is no curve {metric!r}. Available: {available}.")
        points = [point for curve in self if curve.name == metric for point in curve.points()]
        return Picture(learning_curves({metric.replace("_", " "): points}))
