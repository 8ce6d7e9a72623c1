"""Chart of the trials of every method over the learning rate."""

import math
from collections.abc import Iterator, Mapping, Sequence

from adaptlab.charts.frame import PALETTES, Chart, Json, Palette, Theme, frame
from adaptlab.charts.method_marks import method_colour, method_shape
from adaptlab.values import Value


class SweepPoint(Value):
    """A trial over all seeds.

    `accuracy` is the mean on the validation split, None if no seed was scored. For an eliminated
    trial it is the accuracy at the step where it was stopped.
    """

    learning_rate: float
    accuracy: float | None
    seeds: int
    chosen: int
    diverged: int
    eliminated: int = 0


def rate_sweeps(
    sweeps: Mapping[str, Sequence[SweepPoint]],
    *,
    methods: Sequence[str] = (),
    title: str = "",
    theme: Theme = "light",
    width: int = 560,
    height: int = 260,
) -> Chart:
    """Return a chart of validation accuracy over the learning rate.

    Every method has a line. A trial that a seed has chosen is filled, others are hollow. A trial
    that diverged for every seed is a × at the bottom.

    Args:
        sweeps: the trials of each method; if several have the same rate, the line goes through
            their mean.
        methods: all methods of the page in their order, which determines colours and shapes.
        title: the heading of the chart.
        theme: light or dark.
        width: width of the plot in pixels.
        height: height of the plot in pixels.

    Raises:
        ValueError: no trial has an accuracy.
    """
    rows: list[Json] = [*_rows(sweeps, diverged=False)]
    lost: list[Json] = [*_rows(sweeps, diverged=True)]
    if not rows:
        raise ValueError("No trial was scored on the validation split.")
    palette = PALETTES[theme]
    listed = methods or list(sweeps)
    x = _x([point.learning_rate for points in sweeps.values() for point in points])
    return {
        **frame(title, palette),
        "width": width,
        "height": height,
        "description": f"Validation accuracy over the learning rate: {', '.join(sweeps)}.",
        "encoding": {"color": method_colour(listed, list(sweeps), palette)},
        "layer": [
            *_lines(rows, x, method_shape(listed, list(sweeps)), palette),
            *_crosses(lost, x),
        ],
    }


def _rows(sweeps: Mapping[str, Sequence[SweepPoint]], *, diverged: bool) -> Iterator[Chart]:
    for method, points in sweeps.items():
        for point in points:
            if diverged and point.diverged < max(1, point.seeds):
                continue
            if not diverged and point.accuracy is None:
                continue
            shown: dict[str, Json] = point.model_dump(mode="json")
            picked = "chosen" if point.chosen else "not chosen"
            yield {"method": method, **shown, "picked": picked}


def _lines(rows: list[Json], x: Chart, shape: Chart, palette: Palette) -> list[Json]:
    shared: Chart = {"x": x, "y": _y()}
    faint: Chart = {
        "condition": {"test": {"field": "picked", "equal": "chosen"}, "value": 1},
        "value": 0,
    }
    tooltip = _tooltip()
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "line", "strokeWidth": 2, "opacity": 0.8},
            "encoding": {**shared, "y": {**_y(), "aggregate": "mean"}},
        },
        {
            "data": {"values": rows},
            "mark": {"type": "point", "size": 70, "opacity": 1, "fill": palette.background},
            "encoding": {**shared, "shape": shape, "tooltip": tooltip},
        },
        {
            "data": {"values": rows},
            "mark": {"type": "point", "filled": True, "size": 70},
            "encoding": {**shared, "shape": shape, "opacity": faint, "tooltip": tooltip},
        },
    ]


def _crosses(rows: list[Json], x: Chart) -> list[Json]:
    """Return the trials that diverged for every seed, at the lower edge."""
    if not rows:
        return []
    mark: Chart = {"type": "point", "filled": True, "shape": "cross", "angle": 45, "size": 90}
    encoding: Chart = {"x": x, "y": {"value": "height"}, "tooltip": _tooltip()}
    return [{"data": {"values": rows}, "mark": mark | {"opacity": 1}, "encoding": encoding}]


def _x(rates: Sequence[float]) -> Chart:
    return {
        "field": "learning_rate",
        "type": "quantitative",
        "title": "learning rate",
        "scale": {"type": "log", "nice": False, "padding": 14},
        "axis": {"values": _ticks(rates), "format": ".0e", "grid": False},
    }


def _ticks(rates: Sequence[float]) -> list[Json]:
    """Return powers of ten, or all rates if there are fewer than two."""
    low, high = math.ceil(math.log10(min(rates))), math.floor(math.log10(max(rates)))
    powers: list[Json] = [10.0**power for power in range(low, high + 1)]
    tried: list[Json] = [*sorted(set(rates))]
    return powers if len(powers) > 1 else tried


def _y() -> Chart:
    return {
        "field": "accuracy",
        "type": "quantitative",
        "title": "validation accuracy",
        "scale": {"zero": False},
        "axis": {"format": ".0%", "gridOpacity": 0.4, "tickCount": 5},
    }


def _tooltip() -> list[Json]:
    return [
        {"field": "method", "type": "nominal"},
        {
            "field": "learning_rate",
            "type": "quantitative",
            "format": ".3~g",
            "title": "learning rate",
        },
        {"field": "accuracy", "type": "quantitative", "format": ".1%"},
        {"field": "seeds", "type": "quantitative"},
        {"field": "chosen", "type": "quantitative", "title": "chosen by"},
        {"field": "diverged", "type": "quantitative"},
        {"field": "eliminated", "type": "quantitative", "title": "stopped by halving"},
    ]
