"""One step of an output: what a head looks at while it makes one token of the answer."""

from collections.abc import Mapping, Sequence

from adaptlab.charts.frame import PALETTES, Chart, Json, Palette, Theme, frame

TOKEN = 11  # pixels of a token's letters
LONGEST_TOKEN = 8


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
    """Bars of the attention from one position to every key, for two or three patterns.

    Args:
        weights: by the name of a pattern, one weight a key; None where it has no such key.
        tokens: of the keys; the first `learned` are names of learned positions.
        learned: how many keys are learned; they are marked by a band.
        here: the key at the position that looks.
        title: what stands above the chart.
        theme: light or dark.
        width: of the plot, in pixels.
        height: of the plot, in pixels.

    Raises `ValueError` for weights that do not fit the keys.
    """
    if any(len(row) != len(tokens) for row in weights.values()):
        raise ValueError(f"There are {len(tokens)} keys, and another number of weights.")
    palette = PALETTES[theme]
    places: list[Json] = [f"{number}" for number in range(len(tokens))]
    return {
        **frame(title, palette),
        "width": width,
        "height": height,
        "description": f"Attention to {len(tokens)} keys: {', '.join(weights)}.",
        "layer": [
            *_band(learned, places, palette),
            _bars(weights, tokens, places, palette),
            *_token_names(tokens, learned, here, places, palette),
        ],
    }


def _x(places: list[Json]) -> Chart:
    hidden: Chart = {"labels": False, "ticks": False, "titlePadding": 24}
    return {
        "field": "place",
        "type": "ordinal",
        "title": "key",
        "scale": {"domain": places, "paddingInner": 0.2, "paddingOuter": 0.1},
        "axis": hidden,
    }


def _band(learned: int, places: list[Json], palette: Palette) -> list[Json]:
    """A ground behind the learned keys."""
    if not learned:
        return []
    rows: list[Json] = [{"place": place} for place in places[:learned]]
    mark: Chart = {"type": "rect", "color": palette.learned, "opacity": 0.16, "tooltip": None}
    high: Chart = {"y": {"value": 0}, "y2": {"value": "height"}}
    return [
        {"data": {"values": rows}, "mark": mark, "encoding": {"x": _x(places), **high}},
    ]


def _bars(
    weights: Mapping[str, Sequence[float | None]],
    tokens: Sequence[str],
    places: list[Json],
    palette: Palette,
) -> Chart:
    rows: list[Json] = [
        {"place": place, "key": token, "pattern": name, "weight": round(weight, 4)}
        for name, row in weights.items()
        for place, token, weight in zip(places, tokens, row, strict=True)
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
            "x": _x(places),
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


def _token_names(
    tokens: Sequence[str],
    learned: int,
    here: int | None,
    places: list[Json],
    palette: Palette,
) -> list[Json]:
    """Tokens as text marks, since they repeat; the position that looks is bold."""
    groups: dict[tuple[str, str], list[Json]] = {}
    for number, (place, token) in enumerate(zip(places, tokens, strict=True)):
        colour = palette.learned if number < learned else palette.text
        weight = "bold" if number == here else "normal"
        shown = token if len(token) <= LONGEST_TOKEN else f"{token[: LONGEST_TOKEN - 1]}…"
        groups.setdefault((colour, weight), []).append({"place": place, "token": shown})
    below: Chart = {"type": "text", "y": "height", "yOffset": 8, "baseline": "top"}
    return [
        {
            "data": {"values": rows},
            "mark": below | {"fontSize": TOKEN, "color": colour, "fontWeight": weight},
            "encoding": {"x": _x(places), "text": {"field": "token", "type": "nominal"}},
        }
        for (colour, weight), rows in groups.items()
    ]
