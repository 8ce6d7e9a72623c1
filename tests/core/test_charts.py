"""Charts: their contents, and their drawing by Vega-Lite.

Strangers' names stay data.
"""

import json
import struct

import pytest

from adaptlab.charts import (
    AttentionPattern,
    Chart,
    Theme,
    attention_patterns,
    attention_step,
    learning_curves,
    png,
    svg,
)
from adaptlab.runs.events import MetricPoint

HOSTILE = "<script>alert(1)</script>\"\\ '; datum.x //"


def curve(values: list[float | None], replicate: int = 0, name: str = "loss") -> list[MetricPoint]:
    return [
        MetricPoint(replicate=replicate, name=name, step=10 * i, value=value)
        for i, value in enumerate(values)
    ]


def pattern(queries: int, content: int, learned: int = 0, token: str = "") -> AttentionPattern:
    keys = learned + content
    return AttentionPattern(
        title=f"{queries} × {keys}",
        weights=tuple(tuple(1 / keys for _ in range(keys)) for _ in range(queries)),
        tokens=tuple(token or str(i % 8) for i in range(content)),
        learned_positions=learned,
        target_start=queries // 2,
    )


def size_of(image: bytes) -> tuple[int, int]:
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", image[16:24])
    return width, height


def keys_of(value: object) -> set[str]:
    if isinstance(value, dict):
        return {str(k) for k in value} | {k for v in value.values() for k in keys_of(v)}
    return {k for v in value for k in keys_of(v)} if isinstance(value, list) else set()


@pytest.mark.long("every combination", but=1)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("shapes", [[(19, 19, 0)], [(19, 19, 0), (19, 19, 1)], [(40, 60, 10)] * 4])
def test_attention_of_any_shape_and_number_is_drawn(
    shapes: list[tuple[int, int, int]], theme: Theme
) -> None:
    chart = attention_patterns([pattern(*shape) for shape in shapes], title="Layer 0", theme=theme)
    width, height = size_of(png(chart, scale=1))
    assert 300 < width < 3200
    assert 300 < height < 1600


def test_every_weight_is_there_and_learned_positions_have_names_of_their_own() -> None:
    chart = attention_patterns([pattern(2, 3, learned=2, token="7")])
    maps = chart["concat"]
    assert isinstance(maps, list)
    text = json.dumps(maps[0])
    rows = json.loads(text)["layer"][0]["data"]["values"]
    assert len(rows) == 2 * 5
    assert [row["key"] for row in rows[:5]] == ["p1", "p2", "0: 7", "1: 7", "2: 7"]
    assert {row["weight"] for row in rows} == {0.2}
    assert '"domain": [0, 1]' in text


@pytest.mark.parametrize(("learned", "turned"), [(0, set()), (4, set()), (18, {"p1", "p18"})])
def test_names_of_keys_that_would_overlap_on_a_small_screen_are_turned(
    learned: int, turned: set[str]
) -> None:
    tokens = [*(f"p{number + 1}" for number in range(learned)), *"36321662566"]
    chart = attention_step({"after": [0.0] * len(tokens)}, tokens, learned=learned)
    size_of(png(chart, scale=1))
    layers = [one for one in chart["layer"] if one["mark"]["type"] == "text"]  # type: ignore[index]
    names = {
        row["token"]: "angle" in layer["mark"]
        for layer in layers
        for row in layer["data"]["values"]
    }
    assert names.keys() == set(tokens)
    assert {name for name in ("p1", "p18", "3") if names.get(name)} == turned


def test_learning_curves_hold_every_point_and_leave_gaps_for_what_is_not_finite() -> None:
    points = curve([2.0, 1.0, None]) + curve([2.0, 0.0, 0.5], replicate=1)
    linear = learning_curves({"lora": points})
    assert len(json.loads(json.dumps(linear))["data"]["values"]) == 5
    logarithmic = learning_curves({"lora": points}, scale="log")
    assert len(json.loads(json.dumps(logarithmic))["data"]["values"]) == 4
    assert '"type": "log"' in json.dumps(logarithmic)


def test_the_mean_is_drawn_only_where_all_that_go_on_have_a_point() -> None:
    # The second ends at step 10, the third has every other point.
    third = [point for point in curve([5.0, 4.0, 3.0, 2.0], replicate=2) if point.step % 20 == 0]
    points = curve([2.0, 1.0, 1.0, 1.0]) + curve([2.0, 1.0], replicate=1) + third
    rows = json.loads(json.dumps(learning_curves({"lora": points})))["data"]["values"]
    shared = {row["step"]: row["shared"] for row in rows}
    assert shared == {0: True, 10: False, 20: True, 30: True}


def test_colours_of_learning_curves_are_those_of_all_methods() -> None:
    chart = learning_curves({"b": curve([1.0]), "c": curve([1.0])}, of_labels=["a", "b", "c"])
    colour = json.loads(json.dumps(chart))["encoding"]["color"]
    assert colour["scale"]["domain"] == ["a", "b", "c"]
    assert colour["legend"]["values"] == ["b", "c"]


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("curves", [{}, {"a": []}, {"a": curve([1.0])}, {"a": curve([None])}])
def test_few_points_or_none_are_drawn(curves: dict[str, list[MetricPoint]], scale: str) -> None:
    chart = learning_curves(curves, scale="log" if scale == "log" else "linear", title="Loss")
    assert size_of(png(chart))[0] > 600


def test_one_chart_shows_one_metric() -> None:
    with pytest.raises(ValueError, match="accuracy, loss"):
        learning_curves({"a": curve([1.0]), "b": curve([1.0], name="accuracy")})


@pytest.mark.parametrize(
    "wrong",
    [
        pattern(2, 3).model_copy(update={"tokens": ("1",)}),
        pattern(2, 3).model_copy(update={"weights": ()}),
        pattern(2, 3).model_copy(update={"learned_positions": 1}),
    ],
)
def test_weights_that_do_not_fit_their_tokens_are_refused(wrong: AttentionPattern) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        attention_patterns([wrong])


def test_no_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match="no attention"):
        attention_patterns([])


def charts_of_a_stranger() -> list[Chart]:
    hostile = pattern(2, 2, token=HOSTILE).model_copy(update={"title": HOSTILE})
    return [
        attention_patterns([hostile], title=HOSTILE),
        learning_curves({HOSTILE: curve([1.0, 0.5]), "b": curve([1.0, 0.5])}, title=HOSTILE),
    ]


@pytest.mark.parametrize("index", [0, 1])
def test_names_of_a_stranger_are_data_and_no_expression(index: int) -> None:
    chart = charts_of_a_stranger()[index]
    assert keys_of(chart).isdisjoint({"expr", "labelExpr", "calculate", "signal", "href", "url"})
    assert "<script" not in svg(chart)


def test_charts_are_json() -> None:
    for chart in charts_of_a_stranger():
        assert json.loads(json.dumps(chart, allow_nan=False)) == chart
