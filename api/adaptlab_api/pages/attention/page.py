"""The attention page of a job: choices, guide and figures of heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.specs.spec import ResolvedSpec
from adaptlab_answers.attention import MapView
from adaptlab_answers.jobs import JobView
from adaptlab_answers.models import MethodEntry
from adaptlab_api.pages.attention.charts import (
    MOST_HEADS,
    HeadWeights,
    Shown,
    grid_layers,
    read_weights,
)
from adaptlab_api.pages.attention.flow import flows
from adaptlab_api.pages.attention.patches import patch_maps
from adaptlab_api.pages.attention.view import AttentionView, MapPlace, answer_place, attention_view
from adaptlab_api.pages.rendering.job_titles import job_title
from adaptlab_services.errors import Absent
from adaptlab_services.jobs import jobs
from adaptlab_services.models import catalogue
from adaptlab_services.results import attention, attention_heads
from adaptlab_services.results.attention import MapFilter
from adaptlab_services.results.attention_heads import (
    HeadOrder,
    HeadRows,
    LayerFacts,
    MapOutline,
    Sorting,
    shown_map,
)

HEADS_PAGE = 48
ROUNDING = 1e-3
"""Deviations up to this are rounding of half precision and float32."""
COLUMNS: tuple[tuple[HeadOrder, str, str], ...] = (
    ("layer", "Layer, head", ""),
    ("base_entropy", "Entropy before", "entropy"),
    ("entropy", "Entropy", "entropy"),
    ("learned_mass", "Learned mass", "learned mass"),
    ("divergence", "Divergence", "divergence"),
    ("relative_deviation", "Relative deviation", "relative deviation"),
)
"""Order, title, and the term of the glossary that explains it."""


@dataclass(frozen=True, slots=True)
class AttentionQuery:
    """The choices in the address of the page."""

    place: MapPlace
    shown: Shown | None
    sorting: Sorting
    offset: int


@dataclass(frozen=True, slots=True)
class HeadColumn:
    """A column of the table of heads, with its order and sorting address."""

    name: HeadOrder
    title: str
    term: str
    sorted: str
    address: str


@dataclass(frozen=True, slots=True)
class Step:
    """One output token, with the answers at its position.

    `token` is the token at that position, None for a mask. `before` and `after` are the answers of
    the base and the adapted model, `learned` the attention on learned positions, and `followed` the
    right answer, if it is known.
    """

    number: int
    position: int
    token: str | None
    before: str | None
    after: str | None
    followed: str | None
    learned: float | None


@dataclass(frozen=True, slots=True)
class Guide:
    """The expected and measured effect of a job's method on attention."""

    method: MethodEntry | None
    learned: int
    mass: tuple[float, float] | None
    first: LayerFacts | None
    later: LayerFacts | None

    @property
    def first_moved(self) -> bool:
        """True if the first layer changed by more than rounding."""
        return self.first is not None and self.first.relative_deviation > ROUNDING


def attention_page(session: Session, job_id: UUID, asked: AttentionQuery) -> dict[str, object]:
    """Return the values of the template; raise `Absent`."""
    job = jobs.get(session, job_id)
    maps = attention_heads.outlines(session, job_id)
    shown: dict[str, object] = {"job": job, "title": job_title(job), "view": None}
    if not maps:
        return shown
    place = asked.place.within(maps)
    wanted = MapFilter(replicate=place.replicate, layer=place.layer, head=place.head)
    ours = [view for view in attention.maps(session, job_id, wanted).data if view.is_drawable]
    if not ours:
        return shown
    view = attention_view(maps, ours[0], job.resolved_spec)
    rows = attention_heads.heads(
        session, maps, place.replicate, asked.sorting, asked.offset, HEADS_PAGE
    )
    layers = attention_heads.layers(session, maps)
    head = read_weights(session, ours, place)
    return {
        **shown,
        "view": view,
        "place": place,
        "seed": ours[0].seed,
        "shown": _shown(asked.shown, view),
        "step": _step(ours, place, head, job.resolved_spec),
        "patches": patch_maps(session, job_id, job.resolved_spec, place, head),
        "guide": _guide(job, layers, view),
        "layers": layers,
        "flows": flows(session, ours, place, job),
        "here": next(iter(ours[-1].summaries), None) if view.adapted else None,
        **_table(rows, asked, place),
        **_grid(maps, place),
    }


def _shown(asked: Shown | None, view: AttentionView) -> Shown:
    return (asked or "difference") if view.adapted else "base"


def _grid(maps: Sequence[MapOutline], place: MapPlace) -> dict[str, object]:
    """Return the first and last layer of the grid, and the number of layers."""
    outline = shown_map(maps, place.replicate)
    assert outline is not None
    first, stop = grid_layers(outline, place.layer)
    layers, heads = outline.shape[1:3]
    return {"grid": (first, stop - 1, layers), "cut_heads": heads > MOST_HEADS}


def _step(
    maps: Sequence[MapView], place: MapPlace, head: HeadWeights | None, spec: ResolvedSpec
) -> Step | None:
    by_source = {view.source: view for view in maps}
    first = maps[0]
    position, words = first.first_answer(place.sample) + place.step, first.words(place.sample)
    if position >= len(words):
        return None
    learned = None
    if head is not None and head.adapted is not None and head.learned:
        learned = float(head.adapted[position, : head.learned].sum())
    return Step(
        number=place.step,
        position=position,
        token=None if _is_masked(first, place, spec) else words[position],
        before=_answer(by_source.get("base"), place),
        after=_answer(by_source.get("adapted"), place),
        followed=_right(first, place, spec),
        learned=learned,
    )


def _is_masked(view: MapView, place: MapPlace, spec: ResolvedSpec) -> bool:
    """Return True if the model reads a mask where it produces the answer."""
    return not view.texts and answer_place(view, spec) == view.target_start


def _right(view: MapView, place: MapPlace, spec: ResolvedSpec) -> str | None:
    """Return the right token of a step, None if it was not recorded."""
    if view.texts:
        return _at(view.texts[place.sample].expected, place.step)
    return _at(view.words(place.sample)[answer_place(view, spec) :], place.step)


def _answer(view: MapView | None, place: MapPlace) -> str | None:
    return None if view is None else _at(view.given(place.sample), place.step)


def _at(words: Sequence[str], place: int) -> str | None:
    return words[place] if place < len(words) else None


def _guide(job: JobView, layers: Sequence[LayerFacts], view: AttentionView) -> Guide:
    masses = [(layer.least_learned_mass, layer.most_learned_mass) for layer in layers]
    mass = (min(low for low, _ in masses), max(high for _, high in masses)) if masses else None
    return Guide(
        method=_method(job.method),
        learned=view.learned_positions,
        mass=mass if view.learned_positions else None,
        first=next((layer for layer in layers if layer.layer == 0), None),
        later=max(
            (layer for layer in layers if layer.layer > 0),
            key=lambda layer: layer.relative_deviation,
            default=None,
        ),
    )


def _method(name: str | None) -> MethodEntry | None:
    """Return the catalogue entry of a method, or None if it is not installed."""
    try:
        return None if name is None else catalogue.method(name)
    except Absent:
        return None


def _table(rows: HeadRows, asked: AttentionQuery, place: MapPlace) -> dict[str, object]:
    """Return the table of heads, with the links of its columns and pages."""
    end = asked.offset + len(rows.data)
    before = max(0, asked.offset - HEADS_PAGE)
    return {
        "heads": rows,
        "columns": tuple(_column(*column, asked.sorting, place) for column in COLUMNS),
        "first": asked.offset + 1,
        "last": end,
        "previous": _address(asked.sorting, place, before) if asked.offset else None,
        "following": _address(asked.sorting, place, end) if end < rows.total else None,
    }


def _column(
    name: HeadOrder, title: str, term: str, sorting: Sorting, place: MapPlace
) -> HeadColumn:
    """Return a column; its first sort is descending, except for the layer."""
    is_it = sorting.by == name
    turned = not sorting.descending if is_it else name != "layer"
    how = ("descending" if sorting.descending else "ascending") if is_it else "none"
    return HeadColumn(name, title, term, how, _address(Sorting(name, turned), place, 0))


def _address(sorting: Sorting, place: MapPlace, offset: int) -> str:
    query: dict[str, object] = {name: getattr(place, name) for name in _PLACE}
    query |= {"sort": sorting.by, "order": "desc" if sorting.descending else "asc"}
    if offset:
        query["offset"] = offset
    return f"?{urlencode(query)}#heads"


_PLACE = ("replicate", "sample", "layer", "head", "step")
