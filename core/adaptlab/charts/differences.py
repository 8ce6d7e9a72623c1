"""Forest plot of the differences between all methods of a cell."""

from collections.abc import Iterator, Sequence

from adaptlab.charts.frame import PALETTES, Chart, Json, Palette, Theme, frame
from adaptlab.comparisons.comparison import ComparisonCell
from adaptlab.comparisons.verdict import Verdict
from adaptlab.plugins.metric import metric_named
from adaptlab.statistics import PairedDifference
from adaptlab.wording import shortened

ROW = 36  # pixels per pair: its names, and the interval below them
LONGEST_NAME = 25  # two names fit above an interval in a window of 400 pixels
FINDINGS = ("better", "cannot be told apart", "not known")
"""Findings by colour; the better method of a pair is named first."""

_ORDER = {"better": 0, "worse": 0, "cannot_be_told_apart": 1, "not_known": 2}


def better_first(verdict: Verdict) -> PairedDifference:
    """Return the pair of a verdict, reversed if its first method is worse."""
    pair = verdict.pair
    if verdict.finding != "worse":
        return pair
    reverse = {"first": pair.second, "second": pair.first, "difference": -pair.difference}
    limits = {"low": -pair.high, "high": -pair.low}
    return pair.model_copy(update=reverse | limits)


def pairwise_differences(
    cell: ComparisonCell,
    *,
    margin: float = 0.0,
    title: str = "",
    theme: Theme = "light",
    width: int = 560,
) -> Chart:
    """Return a chart of all differences with intervals, coloured by verdict.

    Pairs with a better method come first, then pairs that cannot be told apart, then pairs that
    need more seeds. The order does not depend on the size of a difference.

    Args:
        cell: the methods at one budget with their verdicts.
        margin: the shaded range of differences that count as equal, a share of items.
        title: the heading of the chart.
        theme: light or dark.
        width: width of the plot in pixels.

    Raises:
        ValueError: the cell has no verdicts.
    """
    if not cell.verdicts:
        raise ValueError("No two methods of this cell can be compared.")
    palette = PALETTES[theme]
    ordered = sorted(cell.verdicts, key=lambda verdict: _ORDER[verdict.finding])
    metric = metric_named(ordered[0].pair.metric)
    unit = "points of accuracy" if metric is None else metric.axis_title
    factor = 100.0 if metric is None else metric.axis_factor
    rows: list[Json] = [*_rows(ordered, cell, factor)]
    return {
        **frame(title, palette),
        "width": width,
        "height": ROW * len(rows),
        "description": f"Differences of {len(rows)} pairs of methods, in {unit}.",
        "layer": [
            _stripes(len(rows), palette),
            *_ground(factor * margin, palette),
            *_intervals(rows, palette, unit),
            *_names(rows, palette),
        ],
    }


def _rows(verdicts: Sequence[Verdict], cell: ComparisonCell, factor: float) -> Iterator[Chart]:
    names = {row.label: row.method for row in cell.rows}
    for number, verdict in enumerate(verdicts):
        pair = better_first(verdict)
        labels = (pair.first, pair.second)
        first, second = (shortened(names[label], LONGEST_NAME) for label in labels)
        yield {
            "number": number,
            "pair": f"{first}  −  {second}",
            "difference": factor * pair.difference,
            "low": factor * pair.low,
            "high": factor * pair.high,
            "finding": FINDINGS[_ORDER[verdict.finding]],
        }


def _stripes(count: int, palette: Palette) -> Chart:
    """Return the shading of every other row, which joins names and intervals."""
    rows: list[Json] = [{"number": number} for number in range(0, count, 2)]
    mark: Chart = {"type": "rect", "color": palette.faint, "opacity": 0.3}
    across: Chart = {"x": {"value": 0}, "x2": {"value": "width"}}
    return {"data": {"values": rows}, "mark": mark, "encoding": {**across, "y": _y(count)}}


def _ground(margin: float, palette: Palette) -> list[Json]:
    """Return the margin and the line of no difference."""
    high: Chart = {"y": {"value": 0}, "y2": {"value": "height"}}
    zero: Chart = {
        "data": {"values": [{"zero": 0}]},
        "mark": {"type": "rule", "color": palette.text, "opacity": 0.7},
        "encoding": {**high, "x": {"field": "zero", "type": "quantitative"}},
    }
    if margin == 0:
        return [zero]
    band: Chart = {
        "data": {"values": [{"from": -margin, "to": margin}]},
        "mark": {"type": "rect", "color": palette.text, "opacity": 0.1},
        "encoding": {
            **high,
            "x": {"field": "from", "type": "quantitative"},
            "x2": {"field": "to"},
        },
    }
    return [band, zero]


def _intervals(rows: list[Json], palette: Palette, unit: str) -> list[Json]:
    shared: Chart = {"y": _y(len(rows)), "color": _finding(palette)}
    low: Chart = {"x": _x("low", unit), "x2": {"field": "high"}, **shared}
    point: Chart = {"type": "point", "filled": True, "size": 85, "opacity": 1, "yOffset": 8}
    shapes: list[Json] = ["circle", "square", "diamond"]
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "rule", "strokeWidth": 3, "strokeCap": "round", "yOffset": 8},
            "encoding": low,
        },
        {
            "data": {"values": rows},
            "mark": point,
            "encoding": {
                "x": _x("difference", unit),
                **shared,
                "shape": {**_finding(palette), "scale": {**_domain(), "range": shapes}},
                "tooltip": _tooltip(),
            },
        },
    ]


def _domain() -> Chart:
    return {"domain": list(FINDINGS)}


def _finding(palette: Palette) -> Chart:
    # Colours that no method has in the neighbouring charts.
    colours: list[Json] = [palette.ramp[4], palette.lines[6], palette.learned]
    legend: Chart = {"title": None, "orient": "top", "columns": 3, "symbolOpacity": 1}
    return {
        "field": "finding",
        "type": "nominal",
        "scale": {**_domain(), "range": colours},
        "legend": legend | {"labelLimit": 130, "symbolSize": 80, "columnPadding": 8},
    }


def _x(field: str, unit: str) -> Chart:
    return {
        "field": field,
        "type": "quantitative",
        "title": f"first minus second, {unit}",
        "axis": {"gridOpacity": 0.4, "tickCount": 5},
    }


def _y(count: int) -> Chart:
    numbers: list[Json] = [*range(count)]
    return {
        "field": "number",
        "type": "ordinal",
        "axis": None,
        "scale": {"domain": numbers, "padding": 0},
    }


def _tooltip() -> list[Json]:
    points: Chart = {"type": "quantitative", "format": "+.2f"}
    return [
        {"field": "pair", "type": "nominal"},
        {"field": "finding", "type": "nominal"},
        {**points, "field": "difference"},
        {**points, "field": "low", "title": "from"},
        {**points, "field": "high", "title": "to"},
    ]


def _names(rows: list[Json], palette: Palette) -> list[Json]:
    """Return the names above the intervals, where they fit in narrow windows."""
    mark: Chart = {"type": "text", "x": 5, "align": "left", "fontSize": 11, "yOffset": -8}
    mark |= {"color": palette.text, "baseline": "middle"}
    # The halo keeps lines below from crossing the letters.
    halo: Chart = {"stroke": palette.background, "strokeWidth": 4, "strokeJoin": "round"}
    encoding: Chart = {"y": _y(len(rows)), "text": {"field": "pair", "type": "nominal"}}
    return [
        {"data": {"values": rows}, "mark": mark | halo, "encoding": encoding},
        {"data": {"values": rows}, "mark": mark, "encoding": encoding},
    ]
