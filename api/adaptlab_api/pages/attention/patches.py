"""Attention of the class token to the patches of an image, on its picture."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.plugins.task import Task
from adaptlab.specs.resolved import UnreadSpec, read_resolved
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_api.pages.attention.charts import AFTER, BEFORE, HeadWeights, Weights
from adaptlab_api.pages.attention.view import MapPlace
from adaptlab_api.pages.rendering.item_pictures import Pictures
from adaptlab_services.errors import NoPicture
from adaptlab_services.results import item_pictures

MOST_PATCHES = 1024
STRONGEST = 0.75
"""The opacity of the patch with the most attention, through which its pixels are seen."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch, counted from 0, with its share of the attention."""

    row: int
    column: int
    share: float
    opacity: float


@dataclass(frozen=True, slots=True)
class PatchMap:
    """The attention of one head at the class token.

    `itself` and `learned` are what it attends to itself and to learned positions.
    """

    title: str
    patches: tuple[Patch, ...]
    itself: float
    learned: float


@dataclass(frozen=True, slots=True)
class PatchMaps:
    """Maps over one picture, before and after adaptation.

    `picture` is its address, None if it cannot be shown, for the reason `missing` if it is known.
    """

    rows: int
    columns: int
    picture: str | None
    missing: str | None
    maps: tuple[PatchMap, ...]


def patch_maps(
    session: Session, job_id: UUID, spec: ResolvedSpec, place: MapPlace, head: HeadWeights | None
) -> PatchMaps | None:
    """Return the maps of a head on a sample; None if samples are no images."""
    job = read_resolved(spec)
    if head is None or isinstance(job, UnreadSpec):
        return None
    rows, columns = job.family.patches()
    if rows * columns + 1 != len(head.tokens) or rows * columns > MOST_PATCHES:
        return None
    picture, missing = _picture(session, job_id, spec, job.task, place.sample)
    shown = ((BEFORE, head.base, 0), (AFTER, head.adapted, head.learned))
    maps = (
        patch_map(title, weights, learned, columns)
        for title, weights, learned in shown
        if weights is not None
    )
    return PatchMaps(rows, columns, picture, missing, tuple(maps))


def _picture(
    session: Session, job_id: UUID, spec: ResolvedSpec, task: Task | None, sample: int
) -> tuple[str | None, str | None]:
    """Return the address of a sample's picture, or the reason for none."""
    tasks = item_pictures.image_tasks(spec)
    own = next((place for place, scored in tasks.items() if scored == task), None)
    pictures = None if own is None else Pictures.find(session, job_id, tasks, own)
    if own is None or pictures is None:
        return None, None
    try:  # samples are the first test items, of which the job may show fewer
        item_pictures.place_of(session, job_id, own, sample)
    except NoPicture:
        return None, None
    shown = pictures.at(sample)
    return shown and shown.address, pictures.missing


def patch_map(title: str, weights: Weights, learned: int, columns: int) -> PatchMap:
    """Return the map of a pattern [query, key] that starts with learned keys."""
    row: list[float] = weights[0].tolist()
    itself, shares = row[learned], row[learned + 1 :]
    strongest = max(*shares, 1e-12)
    patches = (
        Patch(*divmod(number, columns), share, round(STRONGEST * share / strongest, 3))
        for number, share in enumerate(shares)
    )
    return PatchMap(title, tuple(patches), itself, sum(row[:learned]))
