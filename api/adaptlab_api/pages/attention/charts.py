"""Charts of attention: one head, its change, one step, and all heads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from adaptlab.charts import (
    AttentionPattern,
    Chart,
    HeadPattern,
    Theme,
    attention_patterns,
    attention_step,
    head_grid,
)
from adaptlab_answers.attention import MapView
from adaptlab_answers.drawable_maps import without_padding
from adaptlab_api.pages.attention.view import MapPlace
from adaptlab_db.errors import ArtifactGone
from adaptlab_services.results import attention, attention_heads
from adaptlab_services.results.attention import MapFilter
from adaptlab_services.results.attention_heads import MapOutline
from adaptlab_services.results.attention_patterns import pattern, patterns_of_layers

Shown = Literal["difference", "adapted", "base"]
Weights: TypeAlias = NDArray[np.float64]
UNREADABLE = (IndexError, ArtifactGone, ValueError)
"""Errors for a place outside the maps, collected bytes, and bytes that are not an array."""
BEFORE, AFTER, AMONG = "before (base model)", "after adaptation", "after, content only"
MOST_HEADS, MOST_WEIGHTS = 256, 4_000_000
"""Per grid: heads, and values that are read for them."""


@dataclass(frozen=True, slots=True)
class ChartLook:
    """The colours of charts, and the number of heat maps per row."""

    theme: Theme
    columns: int


@dataclass(frozen=True, slots=True)
class HeadWeights:
    """Attention of one head on one sample, before and after, [query, key]."""

    base: Weights | None
    adapted: Weights | None
    learned: int
    tokens: tuple[str, ...]
    target_start: int

    @property
    def among(self) -> Weights | None:
        """Adapted relative attention: over content only, rows rescaled to one."""
        return None if self.adapted is None else among_content(self.adapted, self.learned)

    def row_of(self, step: int | None) -> int | None:
        """Return the row that produces output token `step`, or None."""
        return None if step is None else self.target_start + step


def head_weights(session: Session, job_id: UUID, place: MapPlace) -> HeadWeights | None:
    """Return the patterns of one head, or None if none is stored."""
    wanted = MapFilter(replicate=place.replicate, layer=place.layer, head=place.head)
    maps = [view for view in attention.maps(session, job_id, wanted).data if view.is_drawable]
    return read_weights(session, maps, place)


def read_weights(session: Session, maps: Sequence[MapView], place: MapPlace) -> HeadWeights | None:
    """Return the patterns of one head from the maps of one replicate."""
    if not maps:
        return None
    weights: dict[str, Weights] = {}
    try:
        for view in maps:
            whole = pattern(session, view, place.sample, place.layer, place.head)
            weights[view.source] = without_padding(whole)
    except UNREADABLE:
        return None
    words = maps[0].words(place.sample)
    if any(len(rows) > len(words) for rows in weights.values()):
        return None  # stored before it was checked that each position has a token
    return HeadWeights(
        base=weights.get("base"),
        adapted=weights.get("adapted"),
        learned=max(view.learned_positions for view in maps),
        tokens=words,
        target_start=maps[0].first_answer(place.sample),
    )


def among_content(weights: Weights, learned: int) -> Weights:
    """Return relative attention, which the theory compares with the base's.

    The last two axes of `weights` are queries and keys; the first `learned` keys are learned
    positions, which are left out before each row is rescaled to one.
    """
    content = weights[..., learned:]
    total = content.sum(axis=-1, keepdims=True)
    return np.divide(content, total, out=np.zeros_like(content), where=total > 0)


def patterns_chart(
    session: Session, job_id: UUID, place: MapPlace, look: ChartLook, step: int | None
) -> Chart | None:
    """Return the pattern of one head before and after, or None without one.

    If there are learned positions, a third map shows relative attention.
    """
    head = head_weights(session, job_id, place)
    if head is None:
        return None
    shown: list[_Named] = [(BEFORE, head.base, 0), (AFTER, head.adapted, head.learned)]
    if head.learned:
        shown.append((AMONG, head.among, 0))
    patterns = [_pattern(head, *named) for named in _there(shown)]
    return attention_patterns(
        patterns, theme=look.theme, columns=look.columns, query=head.row_of(step)
    )


def strongest_chart(session: Session, job_id: UUID, look: ChartLook) -> Chart | None:
    """Return the head that changed most, before and after; None without maps.

    It is of the first seed, on the first sample.
    """
    strongest = attention_heads.strongest_head(session, attention_heads.outlines(session, job_id))
    if strongest is None:
        return None
    place = MapPlace(strongest.replicate, 0, strongest.layer, strongest.head)
    head = head_weights(session, job_id, place)
    if head is None:
        return None
    shown: list[_Named] = [(BEFORE, head.base, 0), (AFTER, head.adapted, head.learned)]
    where = f"Layer {strongest.layer}, head {strongest.head}, seed {strongest.seed}"
    patterns = [_pattern(head, *named) for named in _there(shown)]
    return attention_patterns(patterns, title=where, theme=look.theme, columns=look.columns)


def difference_chart(
    session: Session, job_id: UUID, place: MapPlace, look: ChartLook, step: int | None
) -> Chart | None:
    """Return adapted relative attention minus the base's; None without both."""
    head = head_weights(session, job_id, place)
    if head is None or head.base is None or head.among is None:
        return None
    title = "after − before, content only" if head.learned else "after − before"
    change = _pattern(head, title, head.among - head.base, 0)
    return attention_patterns([change], theme=look.theme, signed=True, query=head.row_of(step))


def step_chart(session: Session, job_id: UUID, place: MapPlace, theme: Theme) -> Chart | None:
    """Return the attention of one head while it produces one output token."""
    head = head_weights(session, job_id, place)
    if head is None:
        return None
    query = head.target_start + place.step
    blank: list[float | None] = [None] * head.learned
    shown: list[_Named] = [("before", head.base, blank), ("after", head.adapted, [])]
    if head.learned:
        shown.append(("after, content only", head.among, blank))
    rows = {name: [*before, *_row(weights, query)] for name, weights, before in _there(shown)}
    names = [*(f"p{number + 1}" for number in range(head.learned)), *head.tokens]
    count = len(next(iter(rows.values())))
    return attention_step(
        rows, names[:count], learned=head.learned, here=head.learned + query, theme=theme
    )


def heads_chart(
    session: Session, job_id: UUID, place: MapPlace, shown: Shown, look: ChartLook
) -> Chart | None:
    """Return all heads of some layers on one sample, or None without maps."""
    maps = attention_heads.outlines(session, job_id)
    by_source = {
        outline.source: outline for outline in maps if outline.replicate == place.replicate
    }
    base, adapted = by_source.get("base"), by_source.get("adapted")
    outline = adapted if shown == "adapted" else base
    if outline is None or (shown == "difference" and adapted is None):
        return None
    layers = grid_layers(outline, place.layer)
    try:
        weights = without_padding(patterns_of_layers(session, outline, place.sample, layers))
        if shown == "difference" and adapted is not None:
            after = without_padding(patterns_of_layers(session, adapted, place.sample, layers))
            weights = among_content(after, adapted.learned_positions) - weights
    except UNREADABLE:
        return None
    return head_grid(
        _grid(weights, layers[0], outline.learned_positions if shown == "adapted" else 0),
        signed=shown == "difference",
        selected=(place.layer, place.head),
        theme=look.theme,
        narrow=look.columns == 1,
    )


def grid_layers(outline: MapOutline, layer: int) -> tuple[int, int]:
    """Return the layers in one grid with `layer`: first, and last + 1."""
    _, layers, heads, rows, columns = outline.shape
    fits = min(MOST_HEADS // heads, MOST_WEIGHTS // (heads * rows * columns))
    window = max(1, min(layers, fits))
    first = layer // window * window
    return first, min(first + window, layers)


def _grid(weights: Weights, first: int, learned: int) -> list[HeadPattern]:
    return [
        HeadPattern(layer=first + layer, head=head, weights=_rows(rows), learned=learned)
        for layer, heads in enumerate(weights)
        for head, rows in enumerate(heads)
    ]


_Named: TypeAlias = "tuple[str, Weights | None, Any]"  # Any: its learned positions or its padding


def _there(shown: Sequence[_Named]) -> Iterator[tuple[str, Weights, Any]]:
    """Yield those with weights."""
    for name, weights, more in shown:
        if weights is not None:
            yield name, weights, more


def _pattern(head: HeadWeights, title: str, weights: Weights, learned: int) -> AttentionPattern:
    return AttentionPattern(
        title=title,
        weights=_rows(weights),
        tokens=head.tokens,
        learned_positions=learned,
        target_start=head.target_start,
    )


def _row(weights: Weights, query: int) -> list[float]:
    row: list[float] = weights[min(query, len(weights) - 1)].tolist()
    return row


def _rows(weights: Weights) -> tuple[tuple[float, ...], ...]:
    rows: Sequence[Sequence[float]] = weights.tolist()
    return tuple(tuple(row) for row in rows)
