"""Colours and shapes of methods, the same in all charts of a page."""

from collections.abc import Collection, Sequence

from adaptlab.charts.frame import Chart, Json, Palette

SHAPES = (
    *("circle", "square", "triangle-up", "diamond", "cross"),
    *("triangle-down", "triangle-right", "triangle-left"),
)
"""One more than there are colours, so methods of the same colour have different shapes."""
LEGEND_COLUMNS = 2
LEGEND_LABEL = 130  # pixels; two columns fit in a window of 400


def method_colour(methods: Sequence[str], shown: Collection[str], palette: Palette) -> Chart:
    """Return colours by the index in `methods`; the legend has those `shown`."""
    colours: list[Json] = [palette.lines[i % len(palette.lines)] for i in range(len(methods))]
    return _channel(methods, shown, colours)


def method_shape(methods: Sequence[str], shown: Collection[str]) -> Chart:
    """Return shapes by the index in `methods`, in the same legend as colours."""
    shapes: list[Json] = [SHAPES[i % len(SHAPES)] for i in range(len(methods))]
    return _channel(methods, shown, shapes)


def _channel(methods: Sequence[str], shown: Collection[str], values: list[Json]) -> Chart:
    named: list[Json] = [method for method in methods if method in shown]
    legend: Chart = {
        "title": None,
        "orient": "top",
        "columns": LEGEND_COLUMNS,
        "labelLimit": LEGEND_LABEL,
        "symbolOpacity": 1,
        "symbolSize": 80,
        "values": named,
    }
    return {
        "field": "method",
        "type": "nominal",
        "scale": {"domain": list(methods), "range": values},
        "legend": legend,
    }
