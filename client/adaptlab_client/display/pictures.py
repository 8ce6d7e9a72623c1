"""Charts from the client: shown by a notebook, saved as SVG or PNG, or taken as Vega-Lite."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adaptlab.charts import Chart


class Picture:
    """A chart; a notebook draws it where it stands last in a cell.

    `spec` is the Vega-Lite specification, the same as the dashboard's.
    """

    def __init__(self, spec: "Chart") -> None:
        self.spec = spec

    def svg(self) -> str:
        """The chart as an SVG document."""
        from adaptlab import charts  # as below: only for who looks

        return charts.svg(self.spec)

    def png(self, scale: float = 2.0) -> bytes:
        """The chart as a PNG file; `scale` 2 gives two pixels for one."""
        from adaptlab import charts

        return charts.png(self.spec, scale)

    def save(self, target: str | Path) -> Path:
        """Write the chart to a file whose name ends in `.svg`, `.png` or `.json`.

        Raises `ValueError` for any other name.
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
                raise ValueError(f"{other!r} is no kind of picture; end in .svg, .png or .json.")
        return path

    def __repr__(self) -> str:
        """What the chart shows, in words."""
        return f"<Picture: {self.spec.get('description', 'a chart')}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What IPython shows, and what a notebook keeps of it."""
        return {"image/svg+xml": self.svg(), "text/plain": repr(self)}
