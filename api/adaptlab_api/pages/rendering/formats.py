"""Formats of numbers, times and names; each is a filter in the templates."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import cycle
from typing import cast
from uuid import UUID

from markupsafe import Markup, escape
from pydantic import BaseModel

from adaptlab.comparisons.report import moved_text
from adaptlab.comparisons.row_names import first_in_sentence, method_in_sentence, row_title
from adaptlab.comparisons.verdict import less_than
from adaptlab.errors import AdaptlabError, UnknownName
from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.metric import METRICS, is_share
from adaptlab.plugins.registry import by_name
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.sizing import LIMITED, BudgetAxis, in_units
from adaptlab.specs.model_shapes import family_shape
from adaptlab_answers.jobs import RunProgress
from adaptlab_api.pages.rendering.states import look

NOTHING = "–"
MINUTE, HOUR, DAY = 60, 3600, 86_400
KIBI = 1024


def integer(value: int | None) -> str:
    """Format with a comma between thousands: 117,888."""
    return NOTHING if value is None else f"{value:,}"


def budget(amount: int | None, axis: BudgetAxis) -> str:
    """Format a budget: 512, or 8 context tokens."""
    return NOTHING if amount is None else in_units(amount, axis)


def limited(axis: BudgetAxis) -> str:
    """Return what budgets on an axis limit: trainable parameters."""
    return LIMITED[axis]


def mean_count(value: float) -> str:
    """Format a mean of counts: 1,728 if it is whole, otherwise 12.4."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def percent(value: float | None) -> str:
    """Format a fraction as 96.4 %; only exact values become 0.0 % or 100.0 %."""
    if value is None:
        return NOTHING
    rounded = round(100 * value, 1)
    if rounded in (0.0, 100.0) and value not in (0.0, 1.0):
        return "< 0.1 %" if rounded == 0 else "> 99.9 %"
    return f"{rounded:.1f}\N{NO-BREAK SPACE}%"


def bare_percent(value: float | None) -> str:
    """Format as `percent`, without the sign, for a table with a unit."""
    return percent(value).rstrip("%").rstrip()


def points(change: float) -> str:
    """Format a change of a fraction in percentage points: +12.3, +0.03, 0.0."""
    if change == 0:
        return "0.0"
    shown = 100 * change
    text = f"{shown:+.1f}" if abs(shown) >= 0.1 else f"{shown:+.2g}"
    return text.replace("-", "\N{MINUS SIGN}")


def difference(change: float, metric: str | None) -> str:
    """Format a difference of scores, or of a metric on the scale of its tests."""
    return points(change) if is_share(metric) else METRICS.get(str(metric)).by(change)


def share(progress: RunProgress, *, succeeded: bool = False) -> str:
    """Format the progress of a phase: 42 %, and 100 % only at its end.

    A job without training has 100 % once it has `succeeded`.
    """
    done, total = progress.parts if progress.parts[1] else (int(succeeded), 1)
    return f"{100 * done // total}\N{NO-BREAK SPACE}%"


def significant(value: float | None) -> str:
    """Format with three significant digits: 0.00316."""
    return NOTHING if value is None else f"{value:.3g}"


def metric(value: float | None, name: str | None) -> str:
    """Format a task's metric: shares in per cent, others as `significant`."""
    return percent(value) if is_share(name) else significant(value)


def fixed(value: float | None) -> str:
    """Format with three decimals, for a column of similar numbers."""
    return NOTHING if value is None else f"{value:.3f}"


def scientific(value: float | None) -> str:
    """Format with three decimals, or a power of ten if that would read 0.000."""
    if value is None:
        return NOTHING
    if value == 0 or abs(value) >= 0.001:
        return f"{value:.3f}"
    mantissa, exponent = f"{value:.1e}".split("e")
    digits = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa}\N{MULTIPLICATION SIGN}10{digits}"


def probability(value: float | None) -> str:
    """Format a p-value with two significant digits: 0.034, < 0.0001."""
    if value is None:
        return NOTHING
    return f"{value:.2g}" if value >= 0.0001 else "< 0.0001"


def duration(seconds: float | None) -> str:
    """Format in the two largest units: 850 ms, 42.1 s, 3 min 20 s, 1 d 3 h."""
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return f"{round(1000 * max(seconds, 0))} ms"
    if seconds < MINUTE:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, name, smaller, small in ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min")):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // smaller} {small}"
    return f"{whole // MINUTE} min {whole % MINUTE} s"


def until(start: datetime | None, end: datetime | None) -> str:
    """Format the time between two moments."""
    return NOTHING if start is None or end is None else duration((end - start).total_seconds())


def size(count: int | None) -> str:
    """Format bytes in binary units: 500 B, 1.2 KiB, 3.4 MiB."""
    if count is None:
        return NOTHING
    if count < KIBI:
        return f"{count} B"
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < KIBI:
            break
        value, unit = value / KIBI, larger
    return f"{value:.1f} {unit}"


def utc(moment: datetime) -> str:
    """Format in UTC; the browser replaces it by local time."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def short_id(identity: UUID | str) -> str:
    """Return the first eight digits of an id, which every address accepts."""
    return str(identity)[:8]


def words(name: str | None) -> str:
    """Format a name as words: sort_descending becomes sort descending."""
    return NOTHING if not name else name.replace("_", " ")


def task_title(label: str | None) -> str:
    """Format a task's label as words; the name of a dataset in it stays."""
    name, of, rest = (label or "").partition(" of ")
    return f"{words(name)}{of}{rest}"


def method_title(name: str | None) -> str:
    """Return the title of a method, or its name if it is not installed."""
    if name is None:
        return "No method"
    try:
        return METHODS.get(name).title
    except UnknownName:
        return words(name)


def size_rule(name: str) -> str:
    """Return the rule for the size of a method without a size knob."""
    return METHODS.get(name).size_rule


def pretty(value: object) -> str:
    """Format as indented JSON, without escapes for non-ASCII characters."""
    return json.dumps(_plain(value), indent=2, ensure_ascii=False, default=str)


def one_line(value: object) -> str:
    """Format an event's data as `name: value` pairs, without nested values."""
    flat = [(name, item) for name, item in members(value) if not isinstance(item, dict | list)]
    return ", ".join(f"{name}: {_scalar(item)}" for name, item in flat)


def members(value: object) -> list[tuple[str, object]]:
    """Return the members of a value or mapping; empty for anything else."""
    plain = _plain(value)
    if not isinstance(plain, Mapping):
        return []
    return list(cast("Mapping[str, object]", plain).items())


def use(value: object, pointer: str) -> str:
    """Return the value of a button that puts a value into a form."""
    return json.dumps([pointer, value])


def model_shape(family: Mapping[str, object]) -> ModelShape | None:
    """Return the shape of a stored family.

    None if this server cannot read it.
    """
    try:
        return family_shape(by_name(FAMILIES, family))
    except AdaptlabError:
        return None


def with_code(text: str) -> Markup:
    """Format what is between backticks as code."""
    parts = (escape(part) for part in text.split("`"))
    pairs = zip(parts, cycle((Markup("{}"), Markup("<code>{}</code>"))), strict=False)
    return Markup("").join(form.format(part) for part, form in pairs)


def page_filters() -> dict[str, Callable[..., object]]:
    """Return the filters by their names in templates."""
    return {
        "budget": budget,
        "integer": integer,
        "limited": limited,
        "mean_count": mean_count,
        "percent": percent,
        "bare_percent": bare_percent,
        "points": points,
        "difference": difference,
        "less_than": less_than,
        "share": share,
        "metric": metric,
        "significant": significant,
        "fixed": fixed,
        "scientific": scientific,
        "probability": probability,
        "duration": duration,
        "moved": moved_text,
        "until": until,
        "bytes": size,
        "utc": utc,
        "short_id": short_id,
        "words": words,
        "task_title": task_title,
        "method_title": method_title,
        "row_title": row_title,
        "row_name": method_in_sentence,
        "row_start": first_in_sentence,
        "model_shape": model_shape,
        "size_rule": size_rule,
        "one_line": one_line,
        "members": members,
        "use": use,
        "with_code": with_code,
        "look": look,
    }


def _plain(value: object) -> object:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


def _scalar(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
