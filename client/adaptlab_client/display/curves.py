"""The learning curves of a job together: as rows, as a data frame, as a picture."""

from collections.abc import Iterator
from typing import Any

from adaptlab_answers.results import Curve
from adaptlab_client.display.frames import frame
from adaptlab_client.display.pictures import Picture

COLUMNS = ("name", "replicate", "step", "value")


class Curves(tuple[Curve, ...]):
    """The curves that were asked for, one a metric and replicate."""

    __slots__ = ()

    def rows(self) -> Iterator[dict[str, str | int | float | None]]:
        """One row a point; a value that was not finite is None."""
        for curve in self:
            for step, value in zip(curve.steps, curve.values, strict=True):
                yield {
                    "name": curve.name,
                    "replicate": curve.replicate,
                    "step": step,
                    "value": value,
                }

    def to_pandas(self) -> Any:  # a pandas.DataFrame; pandas need not be installed
        """The rows as a data frame; raises `ImportError` without pandas."""
        return frame(self.rows(), COLUMNS)

    def plot(self, name: str | None = None) -> Picture:
        """One metric over the steps, the first one unless it is named.

        Raises `ValueError` where there is no such curve.
        """
        from adaptlab.charts import learning_curves

        there = [*dict.fromkeys(curve.name for curve in self)]
        chosen = name or next(iter(there), None)
        if chosen not in there:
            known = ", ".join(there) or "none"
            raise ValueError(f"There is no curve {chosen!r}; those there are: {known}.")
        points = [point for curve in self if curve.name == chosen for point in curve.points()]
        return Picture(learning_curves({chosen.replace("_", " "): points}))
