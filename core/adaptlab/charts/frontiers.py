"""Chart of gain against retention: seeds, means and joint regions."""

from collections.abc import Iterator, Sequence

from adaptlab.charts.frame import PALETTES, Chart, Json, Palette, Theme, frame
from adaptlab.charts.method_marks import method_colour, method_shape
from adaptlab.comparisons.frontier import Frontier, FrontierRow

SIDE = 340  # pixels


def gain_against_retention(
    found: Frontier,
    *,
    methods: Sequence[str] = (),
    title: str = "",
    theme: Theme = "light",
    width: int = 560,
) -> Chart:
    """Return gain over retention loss, with the base model at the origin.

    Small dots are seeds, large ones means, and ellipses the joint regions of means.

    Args:
        found: gain against retention of one cell.
        methods: all methods of the page in their order, which determines colours.
        title: the heading of the chart.
        theme: light or dark.
        width: width of the plot in pixels.
    """
    palette = PALETTES[theme]
    names = [row.title for row in found.rows]
    colour = method_colour(methods or names, names, palette)
    shape = method_shape(methods or names, names)
    return {
        **frame(title, palette),
        "width": width,
        "height": SIDE,
        "description": f"Gain against retention loss of {', '.join(names)}.",
        "layer": [*_base(palette), *_regions(found, colour), *_dots(found, colour, shape)],
    }


def _axes(prefix: str = "") -> Chart:
    axis: Chart = {"gridOpacity": 0.4, "tickCount": 6}
    return {
        "x": {
            "field": f"{prefix}loss",
            "type": "quantitative",
            "title": "retention loss, per cent of the old skill",
            "axis": axis,
        },
        "y": {
            "field": f"{prefix}gain",
            "type": "quantitative",
            "title": "gain on the new task, points",
            "axis": axis,
        },
    }


def _base(palette: Palette) -> list[Json]:
    """Return the base model at the origin, with its name."""
    data: Chart = {"values": [{"loss": 0, "gain": 0, "name": "base model"}]}
    plus: Chart = {"type": "point", "shape": "cross", "size": 90, "color": palette.text}
    text: Chart = {"type": "text", "dx": 8, "dy": 12, "align": "left", "color": palette.text}
    named: Chart = {**_axes(), "text": {"field": "name", "type": "nominal"}}
    return [
        {"data": data, "mark": plus, "encoding": _axes()},
        {"data": data, "mark": text, "encoding": named},
    ]


def _regions(found: Frontier, colour: Chart) -> list[Json]:
    """Return the edges of regions; none are known below four seeds."""
    edges: list[Json] = [
        {"method": row.title, "place": place, "loss": loss, "gain": gain}
        for row in found.rows
        for place, (loss, gain) in enumerate(_edge(row))
    ]
    if not edges:
        return []  # the limits of an empty layer are not finite
    order: Chart = {"field": "place", "type": "quantitative"}
    lines: Chart = {
        "data": {"values": edges},
        "mark": {"type": "line", "strokeWidth": 1.5, "opacity": 0.8},
        "encoding": {**_axes(), "color": colour, "order": order},
    }
    return [lines]


def _edge(row: FrontierRow) -> Iterator[tuple[float, float]]:
    """Yield the edge of a row's region in points and per cent of loss."""
    if row.region is not None:
        for retention, gain in row.region.outline():
            yield 100 * (1 - row.retention - retention), 100 * (row.gain + gain)


def _dots(found: Frontier, colour: Chart, shape: Chart) -> list[Json]:
    seeds: list[Json] = [
        {
            "method": row.title,
            "seed": one.seed,
            "loss": 100 * (1 - one.retention),
            "gain": 100 * one.gain,
        }
        for row in found.rows
        for one in row.seeds
    ]
    means: list[Json] = [
        {"method": row.title, "loss": 100 * (1 - row.retention), "gain": 100 * row.gain}
        for row in found.rows
    ]
    shared: Chart = {**_axes(), "color": colour, "shape": shape}
    return [
        {
            "data": {"values": seeds},
            "mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.6},
            "encoding": {**shared, "tooltip": _tooltip("method", "seed")},
        },
        {
            "data": {"values": means},
            "mark": {"type": "point", "filled": True, "size": 130, "opacity": 1},
            "encoding": {**shared, "tooltip": _tooltip("method")},
        },
    ]


def _tooltip(*names: str) -> list[Json]:
    figures: Chart = {"type": "quantitative", "format": ".1f"}
    named: list[Json] = [{"field": name, "type": "nominal"} for name in names]
    return [
        *named,
        {**figures, "field": "gain", "title": "gain, points"},
        {**figures, "field": "loss", "title": "retention loss, per cent"},
    ]
