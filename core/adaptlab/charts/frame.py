"""Common parts of all charts: types, colours of a theme, and the frame."""

from typing import Literal, NamedTuple, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Chart: TypeAlias = dict[str, Json]
Theme = Literal["light", "dark"]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
VEGA_LITE = "6.4"


class Palette(NamedTuple):
    """The colours of one theme."""

    background: str
    text: str
    faint: str
    learned: str
    empty: str
    ramp: tuple[str, ...]
    change: tuple[str, ...]
    lines: tuple[str, ...]


PALETTES: dict[Theme, Palette] = {
    "light": Palette(
        background="#ffffff",
        text="#1f2328",
        faint="#d0d7de",
        learned="#bc4c00",
        empty="#f6f8fa",
        ramp=("#f6f8fa", "#c9e3f5", "#7fbbe3", "#3a86c8", "#1a4f96", "#0b1f4f"),
        change=("#7f3b08", "#e08214", "#f6f8fa", "#5aa0d0", "#0b3c78"),
        # Okabe and Ito's colours, which colour-blind readers can distinguish.
        lines=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555"),
    ),
    "dark": Palette(
        background="#0d1117",
        text="#e6edf3",
        faint="#3d444d",
        learned="#f0883e",
        empty="#161b22",
        ramp=("#161b22", "#173a63", "#1f6fb5", "#4aa8dc", "#a3dcef", "#fdfbd4"),
        change=("#ffd9a8", "#d9822b", "#161b22", "#3a86c8", "#bfe6ff"),
        lines=("#56b4e9", "#e69f00", "#2fc59a", "#e89ac7", "#f0e442", "#6ea8ff", "#aaaaaa"),
    ),
}


def frame(title: str, palette: Palette) -> Chart:
    """Return the common members of a chart: schema, configuration and title."""
    members: Chart = {"$schema": SCHEMA, "config": _config(palette)}
    if title:
        members["title"] = {"text": title, "anchor": "start", "fontSize": 15, "offset": 14}
    return members


def _config(palette: Palette) -> Chart:
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
