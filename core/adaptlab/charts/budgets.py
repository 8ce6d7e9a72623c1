"""Chart of score against budget, with bands and crossings."""

import itertools
import math
from collections.abc import Iterator, Sequence

from adaptlab.charts.frame import PALETTES, Chart, Json, Palette, Theme, frame
from adaptlab.charts.method_marks import method_colour, method_shape
from adaptlab.comparisons.comparison import ComparisonRow
from adaptlab.plugins.sizing import LIMITED, PARAMETERS, BudgetAxis
from adaptlab.statistics import Interval
from adaptlab.statistics.curves import BudgetCurve, Crossing

ROOM = 1.15
"""Factor by which the axis extends beyond the first and the last budget."""

_SHARE: Chart = {"type": "quantitative", "format": ".1%"}


def score_against_budget(
    curves: Sequence[BudgetCurve],
    *,
    axis: BudgetAxis = PARAMETERS,
    crossings: Sequence[Crossing] = (),
    references: Sequence[ComparisonRow] = (),
    methods: Sequence[str] = (),
    title: str = "",
    theme: Theme = "light",
    width: int = 560,
    height: int = 300,
) -> Chart:
    """Return a chart of accuracy over budgets.

    Args:
        curves: one curve per method, from `statistics.curves.budget_curves`.
        axis: what the budgets limit.
        crossings: drawn as ×, with a line for the interval.
        references: rows that are the same at every budget, drawn as dashed lines.
        methods: all methods of the page in their order, which determines colours and shapes.
        title: the heading of the chart.
        theme: light or dark.
        width: width of the plot in pixels.
        height: height of the plot in pixels.

    Raises:
        ValueError: there is no curve.
    """
    budgets = sorted({point.budget for curve in curves for point in curve.points})
    if not budgets:
        raise ValueError("There is no score at a budget to draw.")
    palette = PALETTES[theme]
    shown = [*(curve.method for curve in curves), *(row.method for row in references)]
    listed = methods or list(dict.fromkeys(shown))
    return {
        **frame(title, palette),
        "width": width,
        "height": height,
        "description": f"Accuracy against {LIMITED[axis]}: {', '.join(shown)}.",
        "encoding": {"color": method_colour(listed, shown, palette)},
        "layer": [
            *_levels([*_reference_rows(references)]),
            *_lines([*_rows(curves)], _x(budgets, axis), method_shape(listed, shown)),
            *_crosses([*_crossing_rows(crossings, curves, budgets)], palette),
        ],
    }


def _interval(score: Interval) -> Chart:
    return {"score": score.mean, "low": score.low, "high": score.high}


def _rows(curves: Sequence[BudgetCurve]) -> Iterator[Chart]:
    for curve in curves:
        for point in curve.points:
            place: Chart = {"budget": point.budget, "parameters": point.parameters}
            yield {"method": curve.method, **place, **_interval(point.score)}


def _reference_rows(references: Sequence[ComparisonRow]) -> Iterator[Chart]:
    for row in references:
        yield {"method": row.method, "parameters": row.parameters, **_interval(row.score)}


def _levels(rows: list[Json]) -> list[Json]:
    """Return the references: dashed lines at scores, bands of intervals."""
    if not rows:
        return []
    across: Chart = {"x": {"value": 0}, "x2": {"value": "width"}}
    band: Chart = {"y": _y("low"), "y2": {"field": "high"}}
    dashes: list[Json] = [6, 4]
    rule: Chart = {"type": "rule", "strokeDash": dashes, "strokeWidth": 2}
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "rect", "opacity": 0.08},
            "encoding": {**across, **band},
        },
        {
            "data": {"values": rows},
            "mark": rule,
            "encoding": {
                **across,
                "y": _y("score"),
                "tooltip": _tooltip("method", "parameters"),
            },
        },
    ]


def _lines(rows: list[Json], x: Chart, shape: Chart) -> list[Json]:
    point: Chart = {"type": "point", "filled": True, "size": 100, "opacity": 1}
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "area", "opacity": 0.14},
            "encoding": {"x": x, "y": _y("low"), "y2": {"field": "high"}},
        },
        {
            "data": {"values": rows},
            "mark": {"type": "rule", "opacity": 0.5},
            "encoding": {"x": x, "y": _y("low"), "y2": {"field": "high"}},
        },
        {
            "data": {"values": rows},
            "mark": {"type": "line", "strokeWidth": 2},
            "encoding": {"x": x, "y": _y("score")},
        },
        {
            "data": {"values": rows},
            "mark": point,
            "encoding": {
                "x": x,
                "y": _y("score"),
                "shape": shape,
                "tooltip": _tooltip("method", "budget", "parameters"),
            },
        },
    ]


def _x(budgets: Sequence[int], axis: BudgetAxis) -> Chart:
    limits: list[Json] = [budgets[0] / ROOM, budgets[-1] * ROOM]
    ticks: Chart = {"values": list(budgets), "format": ",", "grid": False, "labelOverlap": "greedy"}
    return {
        "field": "budget",
        "type": "quantitative",
        "title": f"budget, {LIMITED[axis]}",
        "scale": {"type": "log", "domain": limits, "nice": False},
        "axis": ticks,
    }


def _y(field: str) -> Chart:
    return {
        "field": field,
        "type": "quantitative",
        "title": "accuracy",
        "scale": {"zero": False},
        "axis": {"format": ".0%", "gridOpacity": 0.4, "tickCount": 5},
    }


def _tooltip(*fields: str) -> list[Json]:
    named: dict[str, Chart] = {
        "method": {"field": "method", "type": "nominal"},
        "budget": {"field": "budget", "type": "quantitative", "format": ","},
        "parameters": {
            "field": "parameters",
            "type": "quantitative",
            "format": ",",
            "title": "trainable parameters",
        },
    }
    limits: list[Json] = [
        {**_SHARE, "field": "score"},
        {**_SHARE, "field": "low", "title": "from"},
        {**_SHARE, "field": "high", "title": "to"},
    ]
    return [*(named[field] for field in fields), *limits]


def _crossing_rows(
    crossings: Sequence[Crossing], curves: Sequence[BudgetCurve], budgets: Sequence[int]
) -> Iterator[Chart]:
    by_method = {curve.method: curve for curve in curves}
    for crossing in crossings:
        yield {
            "budget": crossing.budget,
            "from": crossing.low or budgets[0] / ROOM,
            "to": crossing.high or budgets[-1] * ROOM,
            "score": _score_at(by_method[crossing.higher_before], crossing.budget),
            "below": crossing.higher_before,
            "above": crossing.higher_after,
        }


def _score_at(curve: BudgetCurve, budget: float) -> float:
    """Return the score on the line, linear in the logarithm of the budget."""
    for here, there in itertools.pairwise(curve.points):
        if here.budget <= budget <= there.budget:
            share = math.log(budget / here.budget) / math.log(there.budget / here.budget)
            return here.score.mean + share * (there.score.mean - here.score.mean)
    raise ValueError(f"The curve of {curve.method} does not reach a budget of {budget:,.0f}.")


def _crosses(rows: list[Json], palette: Palette) -> list[Json]:
    if not rows:
        return []
    place: Chart = {
        "x": {"field": "budget", "type": "quantitative"},
        "y": {"field": "score", "type": "quantitative"},
        "color": {"value": palette.text},
    }
    mark: Chart = {"type": "point", "filled": True, "shape": "cross", "angle": 45, "size": 130}
    reach: Chart = {"x": {"field": "from", "type": "quantitative"}, "x2": {"field": "to"}}
    tooltip: list[Json] = [
        {"field": "below", "type": "nominal", "title": "higher below"},
        {"field": "above", "type": "nominal", "title": "higher above"},
        {"field": "budget", "type": "quantitative", "format": ",.0f", "title": "cross at about"},
    ]
    dashes: list[Json] = [1, 3]
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "rule", "strokeDash": dashes, "strokeWidth": 2},
            "encoding": place | reach,
        },
        {
            "data": {"values": rows},
            "mark": mark | {"opacity": 1},
            "encoding": {**place, "tooltip": tooltip},
        },
    ]
