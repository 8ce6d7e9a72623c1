"""Chart of a metric over training steps."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from adaptlab.charts.frame import PALETTES, Chart, Json, Palette, Theme, frame
from adaptlab.runs.events import MetricPoint

AxisScale = Literal["linear", "log"]


def learning_curves(
    curves: Mapping[str, Sequence[MetricPoint]],
    *,
    title: str = "",
    scale: AxisScale = "linear",
    theme: Theme = "light",
    width: int = 560,
    height: int = 300,
    of_labels: Sequence[str] = (),
) -> Chart:
    """Return a chart of one metric over training steps.

    Replicates are thin lines, and the mean of each label is a thick one. The line of a replicate
    ends at a loss that is not finite; the mean is then over the others. It is drawn at steps where
    every replicate that goes on has a point, so curves that were thinned differently do not bend
    it.

    Args:
        curves: points of one metric by label, such as a method or a job.
        title: the heading of the chart.
        scale: the scale of the value axis; points that a log axis cannot show are left out.
        theme: light or dark.
        width: width of the plot in pixels.
        height: height of the plot in pixels.
        of_labels: all labels of the page, which determine colours; those of `curves` by default.

    Raises:
        ValueError: the points belong to several metrics.
    """
    palette = PALETTES[theme]
    names = sorted({point.name for points in curves.values() for point in points})
    if len(names) > 1:
        raise ValueError(f"One chart shows one metric, not {', '.join(names)}.")
    quantity = names[0].replace("_", " ") if names else "value"
    rows: list[Json] = [
        row
        for label, points in curves.items()
        for row in _rows(
            label, [p for p in points if p.value is not None and (scale == "linear" or p.value > 0)]
        )
    ]
    shared = _curve_encoding(list(of_labels or curves), [*curves], quantity, scale, palette)
    return {
        **frame(title, palette),
        "width": width,
        "height": height,
        "description": f"{quantity.capitalize()} over training steps: {', '.join(curves)}.",
        "data": {"values": rows},
        "encoding": shared,
        "layer": _curve_layers(quantity, shared["y"]),
    }


def _rows(label: str, points: Sequence[MetricPoint]) -> Iterator[Json]:
    """Yield the points of a label, some of them `shared`.

    Those are at steps where all replicates that go on have one.
    """
    here: dict[int, set[int]] = defaultdict(set)
    last: dict[int, int] = {}
    for point in points:
        here[point.step].add(point.replicate)
        last[point.replicate] = max(point.step, last.get(point.replicate, 0))
    shared = {
        step: all(number in numbers for number, end in last.items() if end >= step)
        for step, numbers in here.items()
    }
    for point in points:
        row: dict[str, Json] = {"label": label, "replicate": point.replicate, "step": point.step}
        yield {**row, "value": point.value, "shared": shared[point.step]}


def _curve_encoding(
    labels: list[str], drawn: list[str], quantity: str, scale: AxisScale, palette: Palette
) -> Chart:
    named: list[Json] = [label for label in labels if label in drawn]
    colours: list[Json] = [palette.lines[i % len(palette.lines)] for i in range(len(labels))]
    domain: list[Json] = list(labels)
    value_axis: Chart = {"grid": True, "gridOpacity": 0.4, "tickCount": 6}
    legend: Chart = {"title": None, "orient": "top", "columns": 3, "symbolOpacity": 1}
    legend["symbolStrokeWidth"] = 3
    legend["values"] = named
    return {
        "x": {
            "field": "step",
            "type": "quantitative",
            "title": "training step",
            "axis": {"grid": False, "tickCount": 6},
        },
        "y": {
            "field": "value",
            "type": "quantitative",
            "title": quantity,
            "scale": {"type": scale, "zero": False},
            "axis": value_axis,
        },
        "color": {
            "field": "label",
            "type": "nominal",
            "scale": {"domain": domain, "range": colours},
            "legend": legend if len(drawn) > 1 else None,
        },
    }


def _curve_layers(quantity: str, value_axis: Json) -> list[Json]:
    assert isinstance(value_axis, dict)
    return [
        {
            "mark": {"type": "line", "strokeWidth": 1, "opacity": 0.35},
            "encoding": {"detail": {"field": "replicate", "type": "nominal"}},
        },
        {
            "transform": [{"filter": {"field": "shared", "equal": True}}],
            "mark": {"type": "line", "strokeWidth": 2.5},
            "encoding": {
                "y": {**value_axis, "aggregate": "mean"},
                "tooltip": [
                    {"field": "label", "type": "nominal"},
                    {"field": "step", "type": "quantitative"},
                    {
                        "field": "value",
                        "aggregate": "mean",
                        "type": "quantitative",
                        "format": ".4g",
                        "title": f"mean {quantity}",
                    },
                ],
            },
        },
    ]
