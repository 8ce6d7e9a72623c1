"""Small heat maps of attention, drawn by the server."""

import math
from typing import Literal
from uuid import UUID

import numpy as np
from sqlalchemy.orm import Session

from adaptlab_api.pages.attention.charts import Weights, head_weights
from adaptlab_api.pages.attention.view import MapPlace
from adaptlab_services.results import attention_heads

Source = Literal["base", "adapted"]

MOST_CELLS = 48
"""Rows and columns; larger maps are drawn by the means of blocks."""
LEAST_WEIGHT = 0.01
LESS = ' fill="#b3261e"'


def small_map(session: Session, job_id: UUID, source: Source, changed_by: UUID) -> str | None:
    """Return an SVG of one head's relative attention over the content.

    The head is the one that the job `changed_by` changed most; the seed is the job's first, and the
    sample the first. White is 0 and full colour 1 in every map, so that maps compare. None without
    such a map.
    """
    strongest = attention_heads.strongest_head(
        session, attention_heads.outlines(session, changed_by)
    )
    maps = attention_heads.outlines(session, job_id)
    if strongest is None or not maps:
        return None
    place = MapPlace(maps[0].replicate, 0, strongest.layer, strongest.head)
    head = head_weights(session, job_id, place)
    weights = None if head is None else head.base if source == "base" else head.among
    return None if weights is None else drawn_cells(weights)


def small_difference(session: Session, job_id: UUID, minus: UUID) -> str | None:
    """Return an SVG of what a job attends more or less than another one.

    The head is the one that the first job changed most, as in `small_map`, and the colours have the
    same scale. None unless both jobs have a map of the same tokens.
    """
    maps = [attention_heads.outlines(session, one) for one in (job_id, minus)]
    strongest = attention_heads.strongest_head(session, maps[0])
    if strongest is None or not all(maps):
        return None
    heads = [
        head_weights(session, one, MapPlace(own[0].replicate, 0, strongest.layer, strongest.head))
        for one, own in zip((job_id, minus), maps, strict=True)
    ]
    ours, theirs = heads
    if ours is None or theirs is None or ours.tokens != theirs.tokens:
        return None
    first, second = ours.among, theirs.among
    if first is None or second is None or first.shape != second.shape:
        return None
    return drawn_cells(first - second)


def drawn_cells(weights: Weights) -> str:
    """Return an SVG of weights from -1 to 1, [query, key]; red is below 0."""
    cells = _means_of_blocks(weights)
    rows, columns = cells.shape
    squares = "".join(
        f'<rect x="{x}" y="{y}" width="1" height="1" fill-opacity="{abs(weight):.2f}"'
        f"{LESS if weight < 0 else ''}/>"
        for (y, x), weight in np.ndenumerate(cells)
        if abs(weight) >= LEAST_WEIGHT
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {columns} {rows}" '
        f'shape-rendering="crispEdges" preserveAspectRatio="none" width="{16 * columns}" '
        f'height="{16 * rows}"><rect width="{columns}" height="{rows}" fill="#fff"/>'
        f'<g fill="#0b3d91">{squares}</g></svg>'
    )


def _means_of_blocks(weights: Weights) -> Weights:
    size = max(1, math.ceil(max(weights.shape) / MOST_CELLS))
    if size == 1:
        return weights
    rows, columns = (np.arange(0, length, size, dtype=np.int64) for length in weights.shape)
    sums: Weights = np.add.reduceat(np.add.reduceat(weights, rows, 0), columns, 1)
    ones: Weights = np.ones_like(weights)
    counts: Weights = np.add.reduceat(np.add.reduceat(ones, rows, 0), columns, 1)
    return sums / counts
