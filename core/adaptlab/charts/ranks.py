"""Chart of the possible ranks of the methods of a cell."""

from collections.abc import Iterator, Sequence

from adaptlab.charts.frame import PALETTES, Chart, Json, Theme, frame
from adaptlab.charts.method_marks import method_colour
from adaptlab.comparisons.comparison import ComparisonRow

ROW = 26  # pixels per method
LONGEST_NAME = 130  # pixels


def possible_ranks(
    rows: Sequence[ComparisonRow],
    *,
    methods: Sequence[str] = (),
    title: str = "",
    theme: Theme = "light",
    width: int = 560,
) -> Chart:
    """Return a bar from the best to the worst possible rank of each method.

    Args:
        rows: the rows of one cell, in the order of the chart.
        methods: all methods of the page in their order, which determines colours.
        title: the heading of the chart.
        theme: light or dark.
        width: width of the plot in pixels.

    Raises:
        ValueError: there are no rows.
    """
    if not rows:
        raise ValueError("There is no method to rank.")
    palette = PALETTES[theme]
    names = [row.method for row in rows]
    colour: Chart = {**method_colour(methods or names, names, palette), "legend": None}
    ranks: list[Json] = [*range(1, len(rows) + 1)]
    limits: list[Json] = [0.6, len(rows) + 0.4]
    x: Chart = {
        "field": "low",
        "type": "quantitative",
        "title": "rank, 1 is the best",
        "scale": {"domain": limits, "nice": False},
        "axis": {"values": ranks, "format": "d", "gridOpacity": 0.4, "labelOverlap": "greedy"},
    }
    order: list[Json] = list(names)
    y: Chart = {
        "field": "method",
        "type": "nominal",
        "title": None,
        "scale": {"domain": order},
        "axis": {"labelLimit": LONGEST_NAME, "ticks": False, "domain": False},
    }
    shared: Chart = {"x": x, "y": y, "color": colour, "tooltip": _tooltip()}
    values: list[Json] = [*_values(rows)]
    dot: Chart = {"type": "point", "filled": True, "size": 110, "opacity": 1}
    return {
        **frame(title, palette),
        "width": width,
        "height": ROW * len(rows),
        "description": f"Possible ranks of {', '.join(names)}.",
        "data": {"values": values},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 9, "strokeCap": "round", "opacity": 0.45},
                "encoding": {**shared, "x2": {"field": "high"}},
            },
            {"mark": dot, "encoding": shared},
            {"mark": dot, "encoding": {**shared, "x": {**x, "field": "high"}}},
        ],
    }


def _values(rows: Sequence[ComparisonRow]) -> Iterator[Chart]:
    for row in rows:
        best = "may be the best" if row.could_be_best else "not the best"
        yield {"method": row.method, "low": row.rank.low, "high": row.rank.high, "best": best}


def _tooltip() -> list[Json]:
    return [
        {"field": "method", "type": "nominal"},
        {"field": "low", "type": "quantitative", "title": "best rank"},
        {"field": "high", "type": "quantitative", "title": "worst rank"},
        {"field": "best", "type": "nominal", "title": "verdict"},
    ]
