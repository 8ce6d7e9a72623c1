"""Charts as JSON: the page's script fetches them and hands them to the chart library."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from adaptlab.charts import AttentionPattern, Chart, Theme, attention_patterns, learning_curves
from adaptlab.results import MetricPoint
from adaptlab_db.errors import ArtifactGone
from adaptlab_services import attention, results
from adaptlab_services.attention import MapFilter, MapView
from adaptlab_services.attention_patterns import pattern

# By the metric's name as the trainer reports it: the label under which it is drawn.
LOSSES = {"train_loss": "training", "validation_loss": "validation"}
MOST_POINTS = 400  # a curve: more than a screen has pixels to tell apart
TITLES = {"base": "before (base model)", "adapted": "after adaptation"}


def curves_chart(session: Session, job_id: UUID, theme: Theme) -> Chart | None:
    """Training and validation loss of every replicate; None before the first point."""
    found = results.metrics(session, job_id, names=tuple(LOSSES), max_points=MOST_POINTS).data
    curves: dict[str, list[MetricPoint]] = {}
    for curve in found:
        curves.setdefault(LOSSES[curve.name], []).extend(
            MetricPoint(replicate=curve.replicate, name="loss", step=step, value=value)
            for step, value in zip(curve.steps, curve.values, strict=True)
        )
    return learning_curves(curves, theme=theme, height=240) if curves else None


@dataclass(frozen=True, slots=True)
class Look:
    """How heat maps are drawn: in which colours, and how many side by side."""

    theme: Theme
    columns: int


def attention_chart(
    session: Session, job_id: UUID, replicate: int, place: tuple[int, int, int], look: Look
) -> Chart | None:
    """The pattern of one (sample, layer, head) before and after; None where there is none.

    Where learned positions take attention away, a third map shows what is left for the content,
    renormalised to one, as the theory compares it with the base.
    """
    patterns: list[AttentionPattern] = []
    wanted = MapFilter(replicate=replicate)
    for one in sorted(attention.maps(session, job_id, wanted).data, key=_base_first):
        try:
            weights = pattern(session, one, *place)
        except (IndexError, ArtifactGone):
            return None
        patterns += _patterns(one, place[0], weights)
    if not patterns:
        return None
    return attention_patterns(patterns, theme=look.theme, columns=look.columns)


def _base_first(one: MapView) -> bool:
    return one.source != "base"


def _patterns(one: MapView, sample: int, weights: NDArray[np.float64]) -> list[AttentionPattern]:
    shown = [_pattern(one, sample, weights, TITLES[one.source], one.learned_positions)]
    if one.learned_positions:
        content = weights[:, one.learned_positions :]
        total = content.sum(axis=1, keepdims=True)
        among = np.divide(content, total, out=np.zeros_like(content), where=total > 0)
        shown.append(_pattern(one, sample, among, "after, among the content", 0))
    return shown


def _pattern(
    one: MapView, sample: int, weights: NDArray[np.float64], title: str, learned: int
) -> AttentionPattern:
    return AttentionPattern(
        title=title,
        weights=_rows(weights),
        tokens=tuple(str(token) for token in one.tokens[sample]),
        learned_positions=learned,
        target_start=one.target_start,
    )


def _rows(weights: NDArray[np.float64]) -> tuple[tuple[float, ...], ...]:
    rows: Sequence[Sequence[float]] = weights.tolist()
    return tuple(tuple(row) for row in rows)
