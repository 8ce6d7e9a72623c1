"""Comparison of two documents: numbers up to rounding, the rest exactly."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

CLOSE = 1e-9
"""Relative tolerance of numbers, because processors add in different orders."""
MOST_DIFFERENCES = 20
Members = Mapping[str, object]
Elements = Sequence[object]


def disagreements(stated: object, recomputed: object) -> tuple[int, tuple[str, ...]]:
    """Return the number of equal numbers, and the first differences as texts."""
    agreed, differences = 0, list[str]()
    for text in _walk("", stated, recomputed):
        if text is None:
            agreed += 1
        elif len(differences) < MOST_DIFFERENCES:
            differences.append(text)
    return agreed, tuple(differences)


def _walk(place: str, stated: object, recomputed: object) -> Iterator[str | None]:
    """Yield None for every equal number and a text for every difference."""
    if isinstance(stated, dict) and isinstance(recomputed, dict):
        yield from _members(place, cast("Members", stated), cast("Members", recomputed))
    elif isinstance(stated, list) and isinstance(recomputed, list):
        yield from _elements(place, cast("Elements", stated), cast("Elements", recomputed))
    else:
        yield from _values(place, cast("object", stated), recomputed)


def _values(place: str, stated: object, recomputed: object) -> Iterator[str | None]:
    if _is_number(stated) and _is_number(recomputed):
        is_close = _are_close(cast("float", stated), cast("float", recomputed))
        yield None if is_close else _difference(place, stated, recomputed)
    elif stated != recomputed:
        yield _difference(place, stated, recomputed)


def _members(place: str, stated: Members, recomputed: Members) -> Iterator[str | None]:
    for name in dict.fromkeys((*stated, *recomputed)):
        if name in stated and name in recomputed:
            yield from _walk(f"{place}/{name}", stated[name], recomputed[name])
        else:
            yield _difference(f"{place}/{name}", stated.get(name), recomputed.get(name))


def _elements(place: str, stated: Elements, recomputed: Elements) -> Iterator[str | None]:
    if len(stated) != len(recomputed):
        yield (
            f"at {place or '/'} there are {len(stated)} entries, but {len(recomputed)} follow from "
            "the outcomes."
        )
        return
    for number, (left, right) in enumerate(zip(stated, recomputed, strict=True)):
        yield from _walk(f"{place}/{number}", left, right)


def _are_close(left: float, right: float) -> bool:
    try:
        return math.isclose(left, right, rel_tol=CLOSE, abs_tol=CLOSE * CLOSE)
    except OverflowError:  # an integer too large for a float
        return left == right


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _difference(place: str, stated: object, recomputed: object) -> str:
    return (
        f"at {place or '/'} it states {_short(stated)}, but {_short(recomputed)} follows from the "
        "outcomes."
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
