"""Chart of the means of groups with their intervals."""

from collections.abc import Sequence
from typing import NamedTuple

from adaptlab.charts.frame import PALETTES, Chart, Json, Theme, frame

ROW = 24  # pixels per group
LONGEST_NAME = 220  # pixels


class GroupMean(NamedTuple):
    """A group's mean, with the limits of its interval if it has one."""

    name: str
    mean: float
    low: float | None
    high: float | None


def group_means(
    groups: Sequence[GroupMean],
    metric: str,
    *,
    title: str = "",
    theme: Theme = "light",
    width: int = 560,
) -> Chart:
    """Return a dot for each group's mean, with a line over its interval.

    Args:
        groups: the groups in the order of the chart, with different names.
        metric: the title of the axis.
        title: the heading of the chart.
        theme: light or dark.
        width: width of the plot in pixels.

    Raises:
        ValueError: there are no groups.
    """
    if not groups:
        raise ValueError("There is no group to draw.")
    palette = PALETTES[theme]
    order: list[Json] = [group.name for group in groups]
    x: Chart = {"field": "mean", "type": "quantitative", "title": metric}
    y: Chart = {
        "field": "group",
        "type": "nominal",
        "title": None,
        "scale": {"domain": order},
        "axis": {"labelLimit": LONGEST_NAME, "ticks": False, "domain": False},
    }
    tooltip: list[Json] = [{"field": name} for name in ("group", "mean", "low", "high")]
    colour: Chart = {"value": palette.lines[0]}
    shared: Chart = {"y": y, "color": colour, "tooltip": tooltip}
    values: list[Json] = [
        {"group": one.name, "mean": one.mean, "low": one.low, "high": one.high} for one in groups
    ]
    return {
        **frame(title, palette),
        "width": width,
        "height": ROW * len(groups),
        "description": f"Means of {metric} of {len(groups)} groups.",
        "data": {"values": values},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.5},
                "encoding": {**shared, "x": {**x, "field": "low"}, "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
                "encoding": {**shared, "x": x},
            },
        ],
    }
