"""Grid of small attention patterns, one for every layer and head."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from adaptlab.charts.frame import PALETTES, Chart, Json, Palette, Theme, frame
from adaptlab.charts.heat_maps import weight_scale
from adaptlab.values import Value

MOST_CELLS = 9_000
"""Cells of all patterns that a browser can draw at once. Larger patterns are drawn in blocks."""
GAP = 0.12
"""Space between two patterns, as a share of a pattern."""
LARGEST_SIDE, SMALLEST_SIDE = 150, 26
WIDE, NARROW = 620, 250
"""Pixels for all heads of a layer, if there is room."""


class HeadPattern(Value):
    """The pattern of one head, with one row per query.

    The first `learned` keys are learned.
    """

    layer: int
    head: int
    weights: tuple[tuple[float, ...], ...]
    learned: Annotated[int, Field(ge=0)] = 0


def head_grid(
    patterns: Sequence[HeadPattern],
    *,
    signed: bool = False,
    selected: tuple[int, int] | None = None,
    title: str = "",
    theme: Theme = "light",
    narrow: bool = False,
) -> Chart:
    """Return the patterns of all layers (down) and heads (across).

    They have one colour scale. A pattern that is too large is drawn in blocks, each with its value
    farthest from zero. The bar above a pattern covers its learned keys.

    Args:
        patterns: patterns of one sample, all of the same shape.
        signed: whether the weights are differences of weights.
        selected: the layer and head to outline.
        title: the heading of the chart.
        theme: light or dark.
        narrow: whether the chart has to fit on a telephone.

    Raises:
        ValueError: there is no pattern.
    """
    if not patterns:
        raise ValueError("There is no attention pattern to draw.")
    palette = PALETTES[theme]
    layers = sorted({pattern.layer for pattern in patterns})
    heads = sorted({pattern.head for pattern in patterns})
    side = max(SMALLEST_SIDE, min(LARGEST_SIDE, (NARROW if narrow else WIDE) // len(heads)))
    values: list[Json] = [*_cells(patterns, layers, heads)]
    size: Chart = {"width": side * len(heads), "height": side * len(layers)}
    place = _Places(layers, heads)
    return {
        **frame(title, palette),
        **size,
        "description": f"Attention of {len(patterns)} heads, layers down and heads across.",
        "view": {"stroke": None},
        "layer": [
            _frames(patterns, place, palette),
            _weights(values, place, signed, palette),
            *_learned(patterns, place, palette),
            *_names(layers, heads, place, palette),
            *_outline(selected, place, palette),
        ],
    }


class _Places:
    """The places of patterns in unit squares, the first layer at the top."""

    def __init__(self, layers: Sequence[int], heads: Sequence[int]) -> None:
        self._layers, self._heads = list(layers), list(heads)
        self.x: Chart = self._axis(len(heads))
        self.y: Chart = self._axis(len(layers), downwards=True)

    def corner(self, layer: int, head: int) -> tuple[float, float]:
        """Return the upper left corner of a pattern."""
        return self._heads.index(head) + GAP / 2, self._layers.index(layer) + GAP / 2

    @staticmethod
    def _axis(count: int, *, downwards: bool = False) -> Chart:
        domain: list[Json] = [0, count]
        scale: Chart = {"domain": domain, "nice": False, "zero": False, "reverse": downwards}
        return {"type": "quantitative", "axis": None, "scale": scale}


def _box(place: _Places) -> Chart:
    return {
        "x": {**place.x, "field": "x"},
        "x2": {"field": "x2"},
        "y": {**place.y, "field": "y"},
        "y2": {"field": "y2"},
    }


def _square(layer: int, head: int, place: _Places) -> Chart:
    x, y = place.corner(layer, head)
    return {"layer": layer, "head": head, "x": x, "x2": x + 1 - GAP, "y": y, "y2": y + 1 - GAP}


def _frames(patterns: Sequence[HeadPattern], place: _Places, palette: Palette) -> Chart:
    """Return the backgrounds of patterns, clickable also without weights."""
    rows: list[Json] = [_square(pattern.layer, pattern.head, place) for pattern in patterns]
    mark: Chart = {"type": "rect", "fill": palette.empty, "stroke": palette.faint}
    tooltip: list[Json] = [
        {"field": "layer", "type": "quantitative"},
        {"field": "head", "type": "quantitative"},
    ]
    return {
        "data": {"values": rows},
        "mark": mark | {"strokeWidth": 1, "cursor": "pointer"},
        "encoding": {**_box(place), "tooltip": tooltip},
    }


def _cells(
    patterns: Sequence[HeadPattern], layers: Sequence[int], heads: Sequence[int]
) -> Iterator[Chart]:
    place = _Places(layers, heads)
    side = max(2, int((MOST_CELLS / len(patterns)) ** 0.5))
    for pattern in patterns:
        x, y = place.corner(pattern.layer, pattern.head)
        blocks = coarse(np.array(pattern.weights), side)
        tall, wide = ((1 - GAP) / count for count in blocks.shape)
        for (row, column), weight in np.ndenumerate(blocks):
            if round(weight, 3):  # the background shows zeros
                left, top = x + column * wide, y + row * tall
                yield {
                    "layer": pattern.layer,
                    "head": pattern.head,
                    "x": round(left, 4),
                    "x2": round(left + wide, 4),
                    "y": round(top, 4),
                    "y2": round(top + tall, 4),
                    "weight": round(float(weight), 3),
                }


def coarse(weights: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """Return at most `side` × `side` blocks of a pattern.

    Each block has the value farthest from zero.
    """
    for axis in (0, 1):
        count = weights.shape[axis]
        if count > side:
            starts = (np.arange(side) * count) // side
            high = np.maximum.reduceat(weights, starts, axis=axis)
            low = np.minimum.reduceat(weights, starts, axis=axis)
            weights = np.where(high >= -low, high, low)
    return weights


def _weights(values: list[Json], place: _Places, signed: bool, palette: Palette) -> Chart:
    tooltip: list[Json] = [
        {"field": "layer", "type": "quantitative"},
        {"field": "head", "type": "quantitative"},
        {"field": "weight", "type": "quantitative", "format": "+.3f" if signed else ".3f"},
    ]
    colour: Chart = {"field": "weight", "type": "quantitative"}
    return {
        "data": {"values": values},
        "mark": {"type": "rect", "cursor": "pointer"},
        "encoding": {
            **_box(place),
            "color": colour | weight_scale(palette, signed=signed),
            "tooltip": tooltip,
        },
    }


def _learned(patterns: Sequence[HeadPattern], place: _Places, palette: Palette) -> list[Json]:
    rows: list[Json] = []
    for pattern in patterns:
        if pattern.learned and pattern.weights:
            x, y = place.corner(pattern.layer, pattern.head)
            share = pattern.learned / len(pattern.weights[0])
            rows.append({"x": x, "x2": x + share * (1 - GAP), "y": y - GAP / 2, "y2": y})
    if not rows:
        return []
    mark: Chart = {"type": "rect", "color": palette.learned, "tooltip": None}
    return [{"data": {"values": rows}, "mark": mark, "encoding": _box(place)}]


def _names(
    layers: Sequence[int], heads: Sequence[int], place: _Places, palette: Palette
) -> list[Json]:
    """Return the numbers of layers on the left and of heads above."""
    down: list[Json] = [{"at": i + 0.5, "name": f"{n}"} for i, n in enumerate(layers)]
    across: list[Json] = [{"at": i + 0.5, "name": f"{n}"} for i, n in enumerate(heads)]
    mark: Chart = {"type": "text", "color": palette.text, "fontSize": 11}
    left: Chart = mark | {"x": -10, "align": "right"}
    above: Chart = mark | {"y": -10, "baseline": "bottom"}
    name: Chart = {"field": "name", "type": "nominal"}
    title: Chart = mark | {"y": -10, "x": -10, "align": "right", "baseline": "bottom"}
    return [
        {
            "data": {"values": down},
            "mark": left,
            "encoding": {"y": {**place.y, "field": "at"}, "text": name},
        },
        {
            "data": {"values": across},
            "mark": above,
            "encoding": {"x": {**place.x, "field": "at"}, "text": name},
        },
        {"data": {"values": [{}]}, "mark": title | {"text": "layer ↓ head →"}},
    ]


def _outline(selected: tuple[int, int] | None, place: _Places, palette: Palette) -> list[Json]:
    if selected is None:
        return []
    mark: Chart = {
        "type": "rect",
        "fillOpacity": 0,
        "stroke": palette.text,
        "strokeWidth": 2.5,
        "aria": False,
    }
    rows: list[Json] = [_square(*selected, place)]
    return [
        {
            "data": {"values": rows},
            "mark": mark | {"cursor": "pointer", "tooltip": None},
            "encoding": _box(place),
        }
    ]
