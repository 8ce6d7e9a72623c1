"""Charts for notebooks and files, as Vega-Lite, SVG or PNG."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adaptlab.charts import Chart


class Picture:
    """A chart, which a notebook draws if it is the last value of a cell.

    `spec` is its Vega-Lite specification, the same as on the dashboard.
    """

    def __init__(self, spec: "Chart") -> None:
        self.spec = spec

    def svg(self) -> str:
        """Return the chart as an SVG document."""
        from adaptlab import charts  # as below: loaded for drawing only

        return charts.svg(self.spec)

    def png(self, scale: float = 2.0) -> bytes:
        """Return the chart as a PNG file; `scale` 2 doubles the resolution."""
        from adaptlab import charts

        return charts.png(self.spec, scale)

    def save(self, target: str | Path) -> Path:
        """Write the chart to a `.svg`, `.png` or `.json` file and return its path.

        Raises `ValueError` for any other suffix.
        """
        import json

        path = Path(target)
        match path.suffix.lower():
            case ".svg":
                path.write_text(self.svg(), encoding="utf-8")
            case ".png":
                path.write_bytes(self.png())
            case ".json":
                path.write_text(json.dumps(self.spec), encoding="utf-8")
            case other:
                raise ValueError(f"Cannot write a chart as {other!r}; use .svg, .png or .json.")
        return path

    def __repr__(self) -> str:
        """The description of the chart."""
        return f"<Picture: {self.spec.get('description', 'a chart')}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return what IPython shows and a notebook stores."""
        return {"image/svg+xml": self.svg(), "text/plain": repr(self)}
