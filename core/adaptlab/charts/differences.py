"""Every two methods of a cell against each other: a forest plot of their differences."""

from collections.abc import Iterator, Sequence

from adaptlab.charts.frame import PALETTES, Chart, Json, Palette, Theme, frame
from adaptlab.comparisons.comparison import ComparisonCell
from adaptlab.comparisons.verdict import Verdict
from adaptlab.statistics import PairedDifference
from adaptlab.wording import shortened

ROW = 36  # pixels a pair: its names, and the interval below them
LONGEST_NAME = 25  # two of them fit above an interval in a window of 400 pixels
FINDINGS = ("better", "cannot be told apart", "not known")
"""How intervals are coloured; of two that are told apart, the better one is named first."""

_ORDER = {"better": 0, "worse": 0, "cannot_be_told_apart": 1, "not_known": 2}


def better_first(verdict: Verdict) -> PairedDifference:
    """The pair of a verdict, turned round where its first method was found worse."""
    pair = verdict.pair
    if verdict.finding != "worse":
        return pair
    turned = {"first": pair.second, "second": pair.first, "difference": -pair.difference}
    limits = {"low": -pair.high, "high": -pair.low}
    limits |= {"seen_low": -pair.seen_high, "seen_high": -pair.seen_low}
    return pair.model_copy(update=turned | limits)


def pairwise_differences(
    cell: ComparisonCell,
    *,
    margin: float = 0.0,
    title: str = "",
    theme: Theme = "light",
    width: int = 560,
) -> Chart:
    """The difference of every two methods of a cell with its interval, coloured by verdict.

    Args:
        cell: the methods at one budget with their verdicts.
        margin: differences within it, a share of items, count as alike; it is shaded.
        title: what stands above the chart.
        theme: light or dark.
        width: of the plot, in pixels.

    Told apart come first, then those that cannot be, then those that need more seeds: the order
    says nothing about sizes. Raises `ValueError` for a cell without verdicts.
    """
    if not cell.verdicts:
        raise ValueError("No two methods of this cell can be compared.")
    palette = PALETTES[theme]
    ordered = sorted(cell.verdicts, key=lambda one: _ORDER[one.finding])
    rows: list[Json] = [*_rows(ordered, cell)]
    return {
        **frame(title, palette),
        "width": width,
        "height": ROW * len(rows),
        "description": f"Differences of {len(rows)} pairs of methods, in points of accuracy.",
        "layer": [
            _stripes(len(rows), palette),
            *_ground(margin, palette),
            *_intervals(rows, palette),
            *_names(rows, palette),
        ],
    }


def _rows(verdicts: Sequence[Verdict], cell: ComparisonCell) -> Iterator[Chart]:
    names = {row.label: row.method for row in cell.rows}
    for number, verdict in enumerate(verdicts):
        pair = better_first(verdict)
        first, second = (shortened(names[one], LONGEST_NAME) for one in (pair.first, pair.second))
        yield {
            "number": number,
            "pair": f"{first}  −  {second}",
            "difference": 100 * pair.difference,
            "low": 100 * pair.low,
            "high": 100 * pair.high,
            "finding": FINDINGS[_ORDER[verdict.finding]],
        }


def _stripes(count: int, palette: Palette) -> Chart:
    """Every other row shaded, so that names are read with the intervals below them."""
    rows: list[Json] = [{"number": number} for number in range(0, count, 2)]
    mark: Chart = {"type": "rect", "color": palette.faint, "opacity": 0.3}
    across: Chart = {"x": {"value": 0}, "x2": {"value": "width"}}
    return {"data": {"values": rows}, "mark": mark, "encoding": {**across, "y": _y(count)}}


def _ground(margin: float, palette: Palette) -> list[Json]:
    """The margin, and the line of no difference."""
    high: Chart = {"y": {"value": 0}, "y2": {"value": "height"}}
    zero: Chart = {
        "data": {"values": [{"zero": 0}]},
        "mark": {"type": "rule", "color": palette.text, "opacity": 0.7},
        "encoding": {**high, "x": {"field": "zero", "type": "quantitative"}},
    }
    if margin == 0:
        return [zero]
    band: Chart = {
        "data": {"values": [{"from": -100 * margin, "to": 100 * margin}]},
        "mark": {"type": "rect", "color": palette.text, "opacity": 0.1},
        "encoding": {
            **high,
            "x": {"field": "from", "type": "quantitative"},
            "x2": {"field": "to"},
        },
    }
    return [band, zero]


def _intervals(rows: list[Json], palette: Palette) -> list[Json]:
    shared: Chart = {"y": _y(len(rows)), "color": _finding(palette)}
    low: Chart = {"x": _x("low"), "x2": {"field": "high"}, **shared}
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
                "x": _x("difference"),
                **shared,
                "shape": {**_finding(palette), "scale": {**_domain(), "range": shapes}},
                "tooltip": _tooltip(),
            },
        },
    ]


def _domain() -> Chart:
    return {"domain": list(FINDINGS)}


def _finding(palette: Palette) -> Chart:
    # None of the colours of methods, which stand beside this chart.
    colours: list[Json] = [palette.ramp[4], palette.lines[6], palette.learned]
    legend: Chart = {"title": None, "orient": "top", "columns": 3, "symbolOpacity": 1}
    return {
        "field": "finding",
        "type": "nominal",
        "scale": {**_domain(), "range": colours},
        "legend": legend | {"labelLimit": 130, "symbolSize": 80, "columnPadding": 8},
    }


def _x(field: str) -> Chart:
    return {
        "field": field,
        "type": "quantitative",
        "title": "first minus second, points of accuracy",
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
    """The names above the intervals, where there is room for them in a narrow window too."""
    mark: Chart = {"type": "text", "x": 5, "align": "left", "fontSize": 11, "yOffset": -8}
    mark |= {"color": palette.text, "baseline": "middle"}
    # What lies below would cross the letters.
    halo: Chart = {"stroke": palette.background, "strokeWidth": 4, "strokeJoin": "round"}
    encoding: Chart = {"y": _y(len(rows)), "text": {"field": "pair", "type": "nominal"}}
    return [
        {"data": {"values": rows}, "mark": mark | halo, "encoding": encoding},
        {"data": {"values": rows}, "mark": mark, "encoding": encoding},
    ]
