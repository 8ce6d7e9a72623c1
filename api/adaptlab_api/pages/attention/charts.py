"""The charts of attention: one head before and after, its difference, one step, all heads."""

from __future__ import annotations  # for the types of arrays, which are loaded by who draws

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import UUID

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
from adaptlab_api.pages.attention.view import Place
from adaptlab_db.errors import ArtifactGone
from adaptlab_services.results import attention, attention_heads
from adaptlab_services.results.attention import MapFilter
from adaptlab_services.results.attention_heads import MapOutline
from adaptlab_services.results.attention_patterns import pattern, patterns_of_layers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Shown = Literal["difference", "adapted", "base"]
Weights: TypeAlias = "NDArray[np.float64]"
UNREADABLE = (IndexError, ArtifactGone, ValueError)
"""No such place, no such bytes any more, and bytes that a worker sent and that are no array."""
BEFORE, AFTER, AMONG = "before (base model)", "after adaptation", "after, content only"
MOST_HEADS, MOST_WEIGHTS = 256, 4_000_000
"""Of a grid at a time: heads, and the numbers that are read for them."""


@dataclass(frozen=True, slots=True)
class Look:
    """How charts are drawn: in which colours, and how many heat maps side by side."""

    theme: Theme
    columns: int


@dataclass(frozen=True, slots=True)
class HeadWeights:
    """One head on one sample, of shape [query, key]: before, after, and what the keys are."""

    base: Weights | None
    adapted: Weights | None
    learned: int
    tokens: tuple[str, ...]
    target_start: int

    @property
    def among(self) -> Weights | None:
        """The adapted pattern over the content alone, each row renormalised to one."""
        return None if self.adapted is None else among_content(self.adapted, self.learned)

    def row_of(self, step: int | None) -> int | None:
        """The row that makes a token of the output, counted from 0; None for no token."""
        return None if step is None else self.target_start + step


def head_weights(session: Session, job_id: UUID, place: Place) -> HeadWeights | None:
    """The patterns of one head; None where there is none, or none any more."""
    wanted = MapFilter(replicate=place.replicate, layer=place.layer, head=place.head)
    maps = [one for one in attention.maps(session, job_id, wanted).data if one.is_drawable]
    return read_weights(session, maps, place)


def read_weights(session: Session, maps: Sequence[MapView], place: Place) -> HeadWeights | None:
    """The patterns of one head of these maps, which are of one replicate."""
    if not maps:
        return None
    found: dict[str, Weights] = {}
    try:
        for one in maps:
            found[one.source] = pattern(session, one, place.sample, place.layer, place.head)
    except UNREADABLE:
        return None
    return HeadWeights(
        base=found.get("base"),
        adapted=found.get("adapted"),
        learned=max(one.learned_positions for one in maps),
        tokens=tuple(str(token) for token in maps[0].tokens[place.sample]),
        target_start=maps[0].target_start,
    )


def among_content(weights: Weights, learned: int) -> Weights:
    """What is left for the content, renormalised, as the theory compares it with the base.

    The last two axes are queries and keys, of which the first `learned` are learned.
    """
    import numpy as np

    content = weights[..., learned:]
    total = content.sum(axis=-1, keepdims=True)
    return np.divide(content, total, out=np.zeros_like(content), where=total > 0)


def patterns_chart(
    session: Session, job_id: UUID, place: Place, look: Look, step: int | None
) -> Chart | None:
    """The pattern of one head before and after; None where there is none.

    Where learned positions take attention away, a third map shows what is left for the content.
    """
    head = head_weights(session, job_id, place)
    if head is None:
        return None
    shown: list[_Named] = [(BEFORE, head.base, 0), (AFTER, head.adapted, head.learned)]
    if head.learned:
        shown.append((AMONG, head.among, 0))
    patterns = [_pattern(head, *one) for one in _there(shown)]
    return attention_patterns(
        patterns, theme=look.theme, columns=look.columns, query=head.row_of(step)
    )


def difference_chart(
    session: Session, job_id: UUID, place: Place, look: Look, step: int | None
) -> Chart | None:
    """The adapted pattern among the content minus the base's; None without either."""
    head = head_weights(session, job_id, place)
    if head is None or head.base is None or head.among is None:
        return None
    title = "after − before, content only" if head.learned else "after − before"
    change = _pattern(head, title, head.among - head.base, 0)
    return attention_patterns([change], theme=look.theme, signed=True, query=head.row_of(step))


def step_chart(session: Session, job_id: UUID, place: Place, theme: Theme) -> Chart | None:
    """What one head looks at while it makes one token of the output."""
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
    session: Session, job_id: UUID, place: Place, shown: Shown, look: Look
) -> Chart | None:
    """All heads of some layers on one sample; None where there is nothing of that kind."""
    maps = attention_heads.outlines(session, job_id)
    ours = {one.source: one for one in maps if one.replicate == place.replicate}
    base, adapted = ours.get("base"), ours.get("adapted")
    one = adapted if shown == "adapted" else base
    if one is None or (shown == "difference" and adapted is None):
        return None
    layers = grid_layers(one, place.layer)
    try:
        weights = patterns_of_layers(session, one, place.sample, layers)
        if shown == "difference" and adapted is not None:
            after = patterns_of_layers(session, adapted, place.sample, layers)
            weights = among_content(after, adapted.learned_positions) - weights
    except UNREADABLE:
        return None
    return head_grid(
        _grid(weights, layers[0], one.learned_positions if shown == "adapted" else 0),
        signed=shown == "difference",
        selected=(place.layer, place.head),
        theme=look.theme,
        narrow=look.columns == 1,
    )


def grid_layers(one: MapOutline, layer: int) -> tuple[int, int]:
    """The layers that stand in one grid with this one: the first, and the one after the last."""
    _, layers, heads, rows, columns = one.shape
    fits = min(MOST_HEADS // heads, MOST_WEIGHTS // (heads * rows * columns))
    window = max(1, min(layers, fits))
    first = layer // window * window
    return first, min(first + window, layers)


def _grid(weights: Weights, first: int, learned: int) -> list[HeadPattern]:
    return [
        HeadPattern(layer=first + layer, head=head, weights=_rows(one), learned=learned)
        for layer, heads in enumerate(weights)
        for head, one in enumerate(heads)
    ]


_Named: TypeAlias = "tuple[str, Weights | None, Any]"  # Any: what else is known of it


def _there(shown: Sequence[_Named]) -> Iterator[tuple[str, Weights, Any]]:
    """Those of which there are weights."""
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
