"""Charts as Vega-Lite specifications: the same for the dashboard, the demo and PNG files.

A specification is plain JSON without expressions of our own, so that a page can show it through
Vega's interpreter, without `eval`. Names of tasks, methods and tokens only ever appear as data.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import Field

from adaptlab.results import MetricPoint
from adaptlab.values import Value

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Chart: TypeAlias = dict[str, Json]
Theme = Literal["light", "dark"]
AxisScale = Literal["linear", "log"]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
VEGA_LITE = "6.4"
MAP_SIDE = 340
LARGEST_CELL, SMALLEST_CELL = 26, 9
LONGEST_LABEL = 12


class AttentionPattern(Value):
    """One head's pattern on one sample, ready to draw.

    `weights` has one row a query and one entry a key; the first `learned_positions` keys are
    learned, the others stand for `tokens`, of which the queries see the first ones. Rows from
    `target_start` on produce the answer.
    """

    title: str
    weights: tuple[tuple[float, ...], ...]
    tokens: tuple[str, ...]
    learned_positions: Annotated[int, Field(ge=0)] = 0
    target_start: int | None = None
    subtitle: str = ""


class _Palette(NamedTuple):
    """The colours of one theme."""

    background: str
    text: str
    faint: str
    learned: str
    empty: str
    ramp: tuple[str, ...]
    lines: tuple[str, ...]


_PALETTES: dict[Theme, _Palette] = {
    "light": _Palette(
        background="#ffffff",
        text="#1f2328",
        faint="#d0d7de",
        learned="#bc4c00",
        empty="#f6f8fa",
        ramp=("#f6f8fa", "#c9e3f5", "#7fbbe3", "#3a86c8", "#1a4f96", "#0b1f4f"),
        # Okabe and Ito's colours, which colour-blind readers can tell apart.
        lines=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555"),
    ),
    "dark": _Palette(
        background="#0d1117",
        text="#e6edf3",
        faint="#3d444d",
        learned="#f0883e",
        empty="#161b22",
        ramp=("#161b22", "#173a63", "#1f6fb5", "#4aa8dc", "#a3dcef", "#fdfbd4"),
        lines=("#56b4e9", "#e69f00", "#2fc59a", "#e89ac7", "#f0e442", "#6ea8ff", "#aaaaaa"),
    ),
}


def learning_curves(
    curves: Mapping[str, Sequence[MetricPoint]],
    *,
    title: str = "",
    scale: AxisScale = "linear",
    theme: Theme = "light",
    width: int = 560,
    height: int = 300,
) -> Chart:
    """One metric over the training steps: replicates as thin lines, the mean of each label thick.

    Args:
        curves: points of one metric, by the label they appear under (a method, a job).
        title: what stands above the chart.
        scale: of the value axis; points that a log axis cannot show are left out.
        theme: light or dark.
        width: of the plot, in pixels.
        height: of the plot, in pixels.

    Raises `ValueError` for points of several metrics. Where a loss was not finite, the line of
    its replicate ends and the mean is over the others.
    """
    palette = _PALETTES[theme]
    names = sorted({point.name for points in curves.values() for point in points})
    if len(names) > 1:
        raise ValueError(f"One chart shows one metric, not {', '.join(names)}.")
    quantity = names[0].replace("_", " ") if names else "value"
    rows: list[Json] = [
        {"label": label, "replicate": point.replicate, "step": point.step, "value": point.value}
        for label, points in curves.items()
        for point in points
        if point.value is not None and (scale == "linear" or point.value > 0)
    ]
    shared = _curve_encoding(list(curves), quantity, scale, palette)
    return {
        **_frame(title, palette),
        "width": width,
        "height": height,
        "description": f"{quantity.capitalize()} over training steps: {', '.join(curves)}.",
        "data": {"values": rows},
        "encoding": shared,
        "layer": _curve_layers(quantity, shared["y"]),
    }


def attention_patterns(
    maps: Sequence[AttentionPattern],
    *,
    title: str = "",
    theme: Theme = "light",
    columns: int = 3,
) -> Chart:
    """Heat maps of query × key side by side, on one colour scale from 0 to 1.

    Args:
        maps: any number of patterns; each keeps its own shape.
        title: what stands above all of them.
        theme: light or dark.
        columns: maps in a row before the next row starts.

    Learned positions stand before the content, apart from it, and are labelled p1, p2 …
    Raises `ValueError` for none, and for weights that do not fit their tokens.
    """
    if not maps:
        raise ValueError("There is no attention pattern to draw.")
    palette = _PALETTES[theme]
    cell = _cell(maps)
    two_lines = any(pattern.subtitle for pattern in maps)
    names = ", ".join(pattern.title for pattern in maps)
    return {
        **_frame(title, palette),
        "description": f"Attention weights of queries (rows) on keys (columns): {names}.",
        "columns": min(columns, len(maps)),
        "spacing": 36,
        "concat": [_heat_map(pattern, cell, two_lines, palette) for pattern in maps],
        "resolve": {"scale": {"color": "shared"}},
    }


def png(chart: Chart, scale: float = 2.0) -> bytes:
    """The chart as a PNG file; `scale` 2 gives two pixels for one."""
    import vl_convert  # holds a JavaScript engine, which only a caller with a picture to draw needs

    return vl_convert.vegalite_to_png(
        chart, vl_version=VEGA_LITE, scale=scale, allowed_base_urls=[]
    )


def svg(chart: Chart) -> str:
    """The chart as an SVG document."""
    import vl_convert  # as above

    return vl_convert.vegalite_to_svg(chart, vl_version=VEGA_LITE, allowed_base_urls=[])


def _frame(title: str, palette: _Palette) -> Chart:
    frame: Chart = {"$schema": SCHEMA, "config": _config(palette)}
    if title:
        frame["title"] = {"text": title, "anchor": "start", "fontSize": 15, "offset": 14}
    return frame


def _config(palette: _Palette) -> Chart:
    axis: Chart = {
        "labelColor": palette.text,
        "titleColor": palette.text,
        "gridColor": palette.faint,
        "domainColor": palette.faint,
        "tickColor": palette.faint,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    }
    return {
        "background": palette.background,
        "padding": 16,
        "font": "system-ui, Helvetica, Arial, sans-serif",
        "axis": axis,
        "title": {
            "color": palette.text,
            "subtitleColor": palette.text,
            "fontSize": 13,
            "subtitleFontSize": 11,
        },
        "legend": {
            "labelColor": palette.text,
            "titleColor": palette.text,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelLimit": 240,
        },
        "view": {"stroke": None},
    }


def _curve_encoding(labels: list[str], quantity: str, scale: AxisScale, palette: _Palette) -> Chart:
    colours: list[Json] = [palette.lines[i % len(palette.lines)] for i in range(len(labels))]
    domain: list[Json] = list(labels)
    value_axis: Chart = {"grid": True, "gridOpacity": 0.4, "tickCount": 6}
    legend: Chart = {"title": None, "orient": "top", "columns": 3, "symbolOpacity": 1}
    legend["symbolStrokeWidth"] = 3
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
            "legend": legend if len(labels) > 1 else None,
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


def _cell(maps: Sequence[AttentionPattern]) -> int:
    """The side of one cell in pixels, the same in all maps, so that they can be compared."""
    longest = max(max(len(m.weights), len(m.weights[0]) if m.weights else 0) for m in maps)
    return max(SMALLEST_CELL, min(LARGEST_CELL, MAP_SIDE // max(1, longest)))


def _heat_map(pattern: AttentionPattern, cell: int, two_lines: bool, palette: _Palette) -> Chart:
    keys, queries = _labels(pattern)
    heading: Chart = {"text": pattern.title, "anchor": "start", "offset": 10}
    if two_lines:
        heading["subtitle"] = pattern.subtitle or " "  # an empty one would take no room
    return {
        "title": heading,
        "width": cell * len(keys),
        "height": cell * len(queries),
        "view": {"fill": palette.empty},
        "layer": [
            _cells(pattern, keys, queries, cell, palette),
            *_token_labels(keys, queries, pattern.learned_positions, cell, palette),
            *_borders(pattern, len(queries), len(keys), cell, palette),
        ],
    }


class _Position(NamedTuple):
    """A row or column: `place` is unique within its axis, `token` is what is shown."""

    place: str
    token: str


def _labels(pattern: AttentionPattern) -> tuple[list[_Position], list[_Position]]:
    """The key and the query positions; raises `ValueError` when they do not fit the weights."""
    learned = pattern.learned_positions
    content = [_Position(f"{i}: {token}", token) for i, token in enumerate(pattern.tokens)]
    keys = [_Position(f"p{i + 1}", f"p{i + 1}") for i in range(learned)] + content
    rows = len(pattern.weights)
    if not rows or rows > len(content) or any(len(row) != len(keys) for row in pattern.weights):
        raise ValueError(
            f"{pattern.title!r}: weights of {rows} queries do not fit {len(pattern.tokens)} "
            f"tokens and {learned} learned positions."
        )
    return keys, content[:rows]


def _cells(
    pattern: AttentionPattern,
    keys: list[_Position],
    queries: list[_Position],
    cell: int,
    palette: _Palette,
) -> Chart:
    rows: list[Json] = [
        {"query": query.place, "key": key.place, "weight": round(weight, 4)}
        for query, weights in zip(queries, pattern.weights, strict=True)
        for key, weight in zip(keys, weights, strict=True)
    ]
    # Room for the labels that the text marks below draw in the axes' place.
    axis: Chart = {"labels": False, "ticks": False, "domain": False}
    return {
        "data": {"values": rows},
        "mark": {"type": "rect", "stroke": palette.background, "strokeWidth": 1},
        "encoding": {
            "x": {
                **_band("key", keys),
                "title": "key",
                "axis": {**axis, "titlePadding": _room_below(keys, cell)},
            },
            "y": {
                **_band("query", queries),
                "title": "query",
                "axis": {**axis, "titlePadding": 14 + _longest(queries, cell)},
            },
            "color": _weight_colour(palette),
            "tooltip": [
                {"field": "query", "type": "nominal"},
                {"field": "key", "type": "nominal"},
                {"field": "weight", "type": "quantitative", "format": ".4f"},
            ],
        },
    }


def _band(field: str, positions: list[_Position]) -> Chart:
    domain: list[Json] = [position.place for position in positions]
    return {
        "field": field,
        "type": "ordinal",
        "scale": {"domain": domain, "paddingInner": 0, "paddingOuter": 0},
    }


def _weight_colour(palette: _Palette) -> Chart:
    ramp: list[Json] = list(palette.ramp)
    return {
        "field": "weight",
        "type": "quantitative",
        "scale": {"domain": [0, 1], "range": ramp, "clamp": True},
        "legend": {
            "title": "attention weight",
            "orient": "bottom",
            "gradientLength": 220,
            "gradientThickness": 10,
            "values": [0, 0.25, 0.5, 0.75, 1],
            "format": ".2~f",
        },
    }


def _font_size(cell: int) -> int:
    return max(8, min(12, cell - 2))


def _longest(positions: list[_Position], cell: int) -> int:
    """Pixels that the widest token takes."""
    longest = max(len(position.token) for position in positions)
    return round(0.6 * _font_size(cell) * min(longest, LONGEST_LABEL))


def _turned(positions: list[_Position], cell: int) -> bool:
    """Whether the widest token is too wide to stand upright under its column."""
    return _longest(positions, cell) >= cell


def _room_below(positions: list[_Position], cell: int) -> int:
    """Pixels that the tokens take under the map, upright or turned."""
    turned = _turned(positions, cell)
    return 14 + (_longest(positions, cell) if turned else _font_size(cell))


def _token_labels(
    keys: list[_Position], queries: list[_Position], learned: int, cell: int, palette: _Palette
) -> list[Json]:
    """Tokens as text marks: an axis shows each of its values once, and tokens repeat."""
    beside: Chart = {"x": -6, "align": "right", "baseline": "middle", "color": palette.text}
    layers: list[Json] = [_text("y", queries, cell, beside)]
    for group, colour in ((keys[:learned], palette.learned), (keys[learned:], palette.text)):
        if group:
            layers.append(_text("x", group, cell, _below(group, cell) | {"color": colour}))
    return layers


def _below(positions: list[_Position], cell: int) -> Chart:
    """Where tokens stand under the map; `height` is Vega-Lite's word for its lower edge."""
    if _turned(positions, cell):
        return {"y": "height", "yOffset": 6, "baseline": "middle", "align": "right", "angle": 270}
    return {"y": "height", "yOffset": 8, "baseline": "top"}


def _text(channel: Literal["x", "y"], positions: list[_Position], cell: int, place: Chart) -> Chart:
    field = "key" if channel == "x" else "query"
    rows: list[Json] = [
        {field: position.place, "token": _shortened(position.token)} for position in positions
    ]
    mark: Chart = {"type": "text", "fontSize": _font_size(cell)}
    return {
        "data": {"values": rows},
        "mark": mark | place,
        "encoding": {
            channel: {"field": field, "type": "ordinal"},
            "text": {"field": "token", "type": "nominal"},
        },
    }


def _shortened(token: str) -> str:
    return token if len(token) <= LONGEST_LABEL else f"{token[: LONGEST_LABEL - 1]}…"


def _borders(
    pattern: AttentionPattern, rows: int, columns: int, cell: int, palette: _Palette
) -> list[Json]:
    """A line after the learned keys, and a dashed one above the first row that answers."""
    lines: list[Json] = []
    learned, start = pattern.learned_positions, pattern.target_start
    if 0 < learned < columns:
        mark: Chart = {"type": "rule", "color": palette.learned, "strokeWidth": 2}
        lines.append(_line(mark, (cell * learned, 0), (cell * learned, cell * rows)))
    if start is not None and 0 < start < rows:
        dashes: list[Json] = [4, 3]
        mark = {"type": "rule", "color": palette.text, "strokeDash": dashes, "opacity": 0.6}
        lines.append(_line(mark, (0, cell * start), (cell * columns, cell * start)))
    return lines


def _line(mark: Chart, start: tuple[int, int], end: tuple[int, int]) -> Chart:
    (x, y), (x2, y2) = start, end
    places: Chart = {
        "x": {"value": x},
        "y": {"value": y},
        "x2": {"value": x2},
        "y2": {"value": y2},
    }
    return {"data": {"values": [{}]}, "mark": mark, "encoding": places}
