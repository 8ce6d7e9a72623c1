"""Heat maps of attention patterns."""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from adaptlab.charts.frame import PALETTES, Chart, Json, Palette, Theme, frame
from adaptlab.values import Value
from adaptlab.wording import shortened

MAP_SIDE = 340
LARGEST_CELL, SMALLEST_CELL = 26, 9
LONGEST_LABEL = 12


class AttentionPattern(Value):
    """The pattern of one head on one sample.

    `weights` has one row per query and one entry per key. The first `learned_positions` keys are
    learned, and the others are the content, `tokens`. Queries are the first content positions. Rows
    from `target_start` produce the answer.
    """

    title: str
    weights: tuple[tuple[float, ...], ...]
    tokens: tuple[str, ...]
    learned_positions: Annotated[int, Field(ge=0)] = 0
    target_start: int | None = None
    subtitle: str = ""


def attention_patterns(
    maps: Sequence[AttentionPattern],
    *,
    title: str = "",
    theme: Theme = "light",
    columns: int = 3,
    signed: bool = False,
    query: int | None = None,
) -> Chart:
    """Return heat maps of query × key, on one colour scale.

    The scale is from 0 to 1, or from -1 to 1 for differences. Learned positions are separated from
    the content by a line and labelled p1, p2, …

    Args:
        maps: patterns, possibly of different shapes.
        title: the heading of all maps.
        theme: light or dark.
        columns: maps per row.
        signed: whether the weights are differences of weights.
        query: the row to frame in every map, counted from 0.

    Raises:
        ValueError: there is no pattern, or the weights do not fit the tokens.
    """
    if not maps:
        raise ValueError("There is no attention pattern to draw.")
    palette = PALETTES[theme]
    colours = weight_scale(palette, signed=signed)
    cell = _cell(maps)
    two_lines = any(pattern.subtitle for pattern in maps)
    names = ", ".join(pattern.title for pattern in maps)
    return {
        **frame(title, palette),
        "description": f"Attention weights of queries (rows) on keys (columns): {names}.",
        "columns": min(columns, len(maps)),
        "spacing": 36,
        "concat": [_heat_map(m, cell, colours, two_lines, query, palette) for m in maps],
        "resolve": {"scale": {"color": "shared"}},
    }


def _cell(maps: Sequence[AttentionPattern]) -> int:
    """Return the side of a cell in pixels, the same in all maps."""
    longest = max(max(len(m.weights), len(m.weights[0]) if m.weights else 0) for m in maps)
    return max(SMALLEST_CELL, min(LARGEST_CELL, MAP_SIDE // max(1, longest)))


def _heat_map(
    pattern: AttentionPattern,
    cell: int,
    colours: Chart,
    two_lines: bool,
    query: int | None,
    palette: Palette,
) -> Chart:
    keys, queries = _labels(pattern)
    heading: Chart = {"text": pattern.title, "anchor": "start", "offset": 10}
    if two_lines:
        heading["subtitle"] = pattern.subtitle or " "  # keeps the room of a second line
    return {
        "title": heading,
        "width": cell * len(keys),
        "height": cell * len(queries),
        "view": {"fill": palette.empty},
        "layer": [
            _cells(pattern, keys, queries, cell, colours, palette),
            *_token_labels(keys, queries, pattern.learned_positions, cell, palette),
            *_borders(pattern, len(queries), len(keys), cell, palette),
            *_framed(query, len(queries), len(keys), cell, palette),
        ],
    }


class _Position(NamedTuple):
    """A row or column: a `place` unique on its axis and a `token` to show."""

    place: str
    token: str


def _labels(pattern: AttentionPattern) -> tuple[list[_Position], list[_Position]]:
    """Return the key and query positions.

    Raises:
        ValueError: the weights do not fit the tokens.
    """
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
    colours: Chart,
    palette: Palette,
) -> Chart:
    rows: list[Json] = [
        {"query": query.place, "key": key.place, "weight": round(weight, 4)}
        for query, weights in zip(queries, pattern.weights, strict=True)
        for key, weight in zip(keys, weights, strict=True)
    ]
    # Text marks are drawn in the room of the axes' labels.
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
            "color": {"field": "weight", "type": "quantitative", **colours},
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


def weight_scale(palette: Palette, *, signed: bool) -> Chart:
    """Return the colours and legend of weights, or of their differences."""
    ramp: list[Json] = [*(palette.change if signed else palette.ramp)]
    domain: list[Json] = [-1, -0.25, 0, 0.25, 1] if signed else [0, 1]
    ticks: list[Json] = [-1, -0.5, 0, 0.5, 1] if signed else [0, 0.25, 0.5, 0.75, 1]
    legend: Chart = {
        "title": "after minus before" if signed else "attention weight",
        "orient": "bottom",
        "gradientLength": 220,
        "gradientThickness": 10,
        "values": ticks,
        "format": "+.2~f" if signed else ".2~f",
    }
    scale: Chart = {"domain": domain, "range": ramp, "clamp": True, "interpolate": "rgb"}
    return {"scale": scale, "legend": legend}


def _font_size(cell: int) -> int:
    return max(8, min(12, cell - 2))


def _longest(positions: list[_Position], cell: int) -> int:
    """Return the width of the widest token in pixels."""
    longest = max(len(position.token) for position in positions)
    return round(0.6 * _font_size(cell) * min(longest, LONGEST_LABEL))


def _turned(positions: list[_Position], cell: int) -> bool:
    """Return True if the widest token is too wide for its column."""
    return _longest(positions, cell) >= cell


def _room_below(positions: list[_Position], cell: int) -> int:
    """Return the height of the tokens below the map in pixels."""
    turned = _turned(positions, cell)
    return 14 + (_longest(positions, cell) if turned else _font_size(cell))


def _token_labels(
    keys: list[_Position], queries: list[_Position], learned: int, cell: int, palette: Palette
) -> list[Json]:
    """Return the tokens as text marks; an axis would show repeated ones once."""
    beside: Chart = {"x": -6, "align": "right", "baseline": "middle", "color": palette.text}
    layers: list[Json] = [_text("y", queries, cell, beside)]
    for group, colour in ((keys[:learned], palette.learned), (keys[learned:], palette.text)):
        if group:
            layers.append(_text("x", group, cell, _below(group, cell) | {"color": colour}))
    return layers


def _below(positions: list[_Position], cell: int) -> Chart:
    """Return the place of tokens below the map.

    `height` is Vega-Lite's name for the lower edge.
    """
    if _turned(positions, cell):
        return {"y": "height", "yOffset": 6, "baseline": "middle", "align": "right", "angle": 270}
    return {"y": "height", "yOffset": 8, "baseline": "top"}


def _text(channel: Literal["x", "y"], positions: list[_Position], cell: int, place: Chart) -> Chart:
    field = "key" if channel == "x" else "query"
    rows: list[Json] = [
        {field: position.place, "token": shortened(position.token, LONGEST_LABEL)}
        for position in positions
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


def _borders(
    pattern: AttentionPattern, rows: int, columns: int, cell: int, palette: Palette
) -> list[Json]:
    """Return lines after the learned keys and above the first answer row."""
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


def _framed(query: int | None, rows: int, columns: int, cell: int, palette: Palette) -> list[Json]:
    """Return a frame around the row of a query, none if there is no such row."""
    if query is None or not 0 <= query < rows:
        return []
    mark: Chart = {
        "type": "rect",
        "fillOpacity": 0,
        "stroke": palette.text,
        "strokeWidth": 2,
        "aria": False,
    }
    return [
        _line(mark | {"tooltip": None}, (0, cell * query), (cell * columns, cell * (query + 1)))
    ]
