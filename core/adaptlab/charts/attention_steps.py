"""Chart of a head's attention from one position."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from adaptlab.charts.frame import PALETTES, Chart, Json, Palette, Theme, frame
from adaptlab.wording import shortened

TOKEN, TURNED = 11, 9  # font sizes in pixels, upright and turned
LETTER = 0.62 * TOKEN  # width of a letter in pixels
LONGEST_TOKEN = 8
NARROWEST = 320
"""Width in pixels of a plot on a small screen. Tokens that would overlap there are turned."""


def attention_step(
    weights: Mapping[str, Sequence[float | None]],
    tokens: Sequence[str],
    *,
    learned: int = 0,
    here: int | None = None,
    title: str = "",
    theme: Theme = "light",
    width: int = 560,
    height: int = 190,
) -> Chart:
    """Return bars of the attention from one position to every key.

    Args:
        weights: one weight per key for each of two or three patterns, by the pattern's name; None
            for a key that the pattern does not have.
        tokens: the tokens of the keys; the first `learned` are names of learned positions.
        learned: the number of learned keys, which are marked by a band.
        here: the key at the position itself.
        title: the heading of the chart.
        theme: light or dark.
        width: width of the plot in pixels.
        height: height of the plot in pixels.

    Raises:
        ValueError: the number of weights differs from the number of keys.
    """
    if any(len(row) != len(tokens) for row in weights.values()):
        raise ValueError(f"Every pattern needs {len(tokens)} weights, one per key.")
    palette = PALETTES[theme]
    keys = _keys(tokens, learned)
    return {
        **frame(title, palette),
        "width": width,
        "height": height,
        "description": f"Attention to {len(tokens)} keys: {', '.join(weights)}.",
        "layer": [
            *_band(keys, palette),
            _bars(weights, tokens, keys, palette),
            *_token_names(keys, here, palette),
        ],
    }


class _Keys(NamedTuple):
    """The keys along the axis, with their names and the direction of the text."""

    places: list[Json]
    names: tuple[str, ...]
    turned: tuple[bool, ...]
    learned: int

    @property
    def room(self) -> int:
        """The height of the names in pixels."""
        named = zip(self.names, self.turned, strict=True)
        lengths = (len(name) for name, is_turned in named if is_turned)
        return max(24, 14 + round(LETTER * max(lengths, default=0)))


def _keys(tokens: Sequence[str], learned: int) -> _Keys:
    names = tuple(shortened(token, LONGEST_TOKEN) for token in tokens)
    places: list[Json] = [f"{number}" for number in range(len(names))]
    turned: list[bool] = []
    for group in (names[:learned], names[learned:]):
        widest = LETTER * max(map(len, group), default=0)
        turned += [widest * len(names) > NARROWEST] * len(group)
    return _Keys(places, names, tuple(turned), learned)


def _x(keys: _Keys) -> Chart:
    hidden: Chart = {"labels": False, "ticks": False, "titlePadding": keys.room}
    return {
        "field": "place",
        "type": "ordinal",
        "title": "key",
        "scale": {"domain": keys.places, "paddingInner": 0.2, "paddingOuter": 0.1},
        "axis": hidden,
    }


def _band(keys: _Keys, palette: Palette) -> list[Json]:
    """Return the band behind the learned keys."""
    if not keys.learned:
        return []
    rows: list[Json] = [{"place": place} for place in keys.places[: keys.learned]]
    mark: Chart = {"type": "rect", "color": palette.learned, "opacity": 0.16, "tooltip": None}
    high: Chart = {"y": {"value": 0}, "y2": {"value": "height"}}
    return [
        {"data": {"values": rows}, "mark": mark, "encoding": {"x": _x(keys), **high}},
    ]


def _bars(
    weights: Mapping[str, Sequence[float | None]],
    tokens: Sequence[str],
    keys: _Keys,
    palette: Palette,
) -> Chart:
    rows: list[Json] = [
        {"place": place, "key": token, "pattern": name, "weight": round(weight, 4)}
        for name, row in weights.items()
        for place, token, weight in zip(keys.places, tokens, row, strict=True)
        if weight is not None
    ]
    names: list[Json] = [*weights]
    colours: list[Json] = [palette.lines[number] for number in (6, 0, 2)[: len(names)]]
    legend: Chart = {"title": None, "orient": "top", "columns": 3, "symbolType": "square"}
    axis: Chart = {"gridOpacity": 0.4, "tickCount": 5, "format": ".0%"}
    tooltip: list[Json] = [
        {"field": "pattern", "type": "nominal"},
        {"field": "key", "type": "nominal"},
        {"field": "weight", "type": "quantitative", "format": ".4f"},
    ]
    return {
        "data": {"values": rows},
        "mark": {"type": "bar"},
        "encoding": {
            "x": _x(keys),
            "xOffset": {"field": "pattern", "type": "nominal", "scale": {"domain": names}},
            "y": {
                "field": "weight",
                "type": "quantitative",
                "title": "attention weight",
                "axis": axis,
            },
            "color": {
                "field": "pattern",
                "type": "nominal",
                "scale": {"domain": names, "range": colours},
                "legend": legend | {"labelLimit": 180},
            },
            "tooltip": tooltip,
        },
    }


def _token_names(keys: _Keys, here: int | None, palette: Palette) -> list[Json]:
    """Return the tokens as text marks, the one at the position itself in bold.

    An axis would show a repeated token only once.
    """
    groups: dict[tuple[str, str, bool], list[Json]] = {}
    named = zip(keys.places, keys.names, keys.turned, strict=True)
    for number, (place, name, turned) in enumerate(named):
        colour = palette.learned if number < keys.learned else palette.text
        weight = "bold" if number == here else "normal"
        groups.setdefault((colour, weight, turned), []).append({"place": place, "token": name})
    return [
        {
            "data": {"values": rows},
            "mark": _below(turned) | {"color": colour, "fontWeight": weight},
            "encoding": {"x": _x(keys), "text": {"field": "token", "type": "nominal"}},
        }
        for (colour, weight, turned), rows in groups.items()
    ]


def _below(turned: bool) -> Chart:
    below: Chart = {"type": "text", "y": "height", "yOffset": 8, "fontSize": TOKEN}
    if turned:
        return below | {"baseline": "middle", "align": "right", "angle": 270, "fontSize": TURNED}
    return below | {"baseline": "top"}
