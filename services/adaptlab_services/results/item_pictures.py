"""Pictures of test items: the images that a job's models were scored on."""

import hashlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import BadDataset
from adaptlab.plugins.image_task import ImageTask
from adaptlab.records.line_places import BLOCK, feeds_before_blocks, line_at
from adaptlab.records.problems import NotARecord
from adaptlab.records.record import LONGEST_LINE, Record
from adaptlab.specs.resolved import UnreadSpec, read_resolved, scored_tasks
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_db.artifacts import ArtifactStore, streamed
from adaptlab_db.errors import ArtifactGone, ArtifactNotFound
from adaptlab_db.tables import Job, ShownItems
from adaptlab_services.errors import NoPicture
from adaptlab_services.results.results import latest_attempt

_RECORD: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])
_COUNTING = threading.Lock()
"""One dataset at a time is read as a whole, so that a page of pictures reads it once."""
Sessions = sessionmaker[Session]


@dataclass(frozen=True, slots=True)
class PicturePlace:
    """The place of the picture of a test item.

    It is its number and, if the task has a dataset, its line there.
    """

    task: ImageTask
    item: int
    line: int | None

    @property
    def digest(self) -> str:
        """A digest that changes whenever the picture does."""
        source = f"{self.task.model_dump_json()} {self.item} {self.line}"
        return hashlib.sha256(source.encode()).hexdigest()


def image_tasks(spec: ResolvedSpec) -> dict[int, ImageTask]:
    """Return the tasks with images by their places among the scored tasks."""
    job = read_resolved(spec)
    tasks = () if isinstance(job, UnreadSpec) else scored_tasks(job)
    return {place: task for place, task in enumerate(tasks) if isinstance(task, ImageTask)}


def missing_reason(session: Session, task: ImageTask) -> str | None:
    """Return why none of a task's pictures can be shown, as a sentence."""
    if not (datasets := task.datasets()):
        try:
            task.picture(0, _no_record)
        except BadDataset as error:
            return str(error)
        return None
    try:
        ArtifactStore(session).locate(datasets[0].digest)
    except (ArtifactNotFound, ArtifactGone):
        return _gone(datasets[0].name)
    return None


def place_of(session: Session, job_id: UUID, task_place: int, item: int) -> PicturePlace:
    """Return the place of the picture of an item that a job shows.

    Raises:
        Absent: there is no such job.
        NoPicture: there is no such item, or it is no image.
    """
    attempt = latest_attempt(session, job_id)
    task = image_tasks(_spec(session, job_id)).get(task_place)
    if task is None:
        raise NoPicture(
            f"Task {task_place} of the job {job_id} has no images. Its items are texts."
        )
    mine = (ShownItems.job_id == job_id, ShownItems.attempt == attempt)
    stored = ShownItems.items[item]
    found = session.execute(
        select(stored).where(*mine, ShownItems.task_place == task_place)
    ).scalar_one_or_none()
    if found is None:
        raise NoPicture(
            f"The job {job_id} shows no item {item} of task {task_place}. List its answers to see "
            "which items it shows."
        )
    return PicturePlace(task, item, found.get("line"))


def png(sessions: Sessions, place: PicturePlace) -> bytes:
    """Return a picture as a PNG.

    Only a part of the dataset is read, except for the first picture since the server started.

    Raises:
        NoPicture: the image is damaged, is not installed, or its dataset has been deleted.
    """
    try:
        return place.task.picture(place.item, lambda: _record_of(sessions, place))
    except BadDataset as error:
        raise NoPicture(str(error)) from error


def _spec(session: Session, job_id: UUID) -> ResolvedSpec:
    document = session.execute(select(Job.resolved_spec).where(Job.id == job_id)).scalar_one()
    return ResolvedSpec.model_validate(document)


def _no_record() -> Record:
    raise BadDataset("There is no dataset.")


def _record_of(sessions: Sessions, place: PicturePlace) -> Record:
    """Return the record with an image; raises `BadDataset` and `NoPicture`."""
    (reference,) = place.task.datasets()
    if place.line is None:
        raise BadDataset(f"The line of item {place.item:,} was not recorded.")
    try:
        return _record(sessions, reference.digest, place.line)
    except (ArtifactNotFound, ArtifactGone) as error:
        raise NoPicture(_gone(reference.name)) from error


def _record(sessions: Sessions, digest: str, number: int) -> Record:
    with _COUNTING:
        feeds = _feeds(sessions, digest)

    def read(start: int) -> Iterator[bytes]:
        for block in range(start, start + BLOCK + LONGEST_LINE, BLOCK):
            yield from streamed(sessions, digest, block, block + BLOCK)

    damaged = BadDataset(f"Line {number:,} of the dataset is no record. Upload it again.")
    try:
        line = line_at(feeds, number, read)
        if line is None:
            raise damaged
        return _RECORD.validate_json(line.content, strict=True)
    except (NotARecord, ValidationError) as error:
        raise damaged from error


@lru_cache(maxsize=64)
def _feeds(sessions: Sessions, digest: str) -> Sequence[int]:
    """Return the line feeds before each block of a dataset, 128 KiB for 1 GiB."""
    return feeds_before_blocks(streamed(sessions, digest))


def _gone(dataset: str) -> str:
    return f"The dataset {dataset!r} has been deleted, and with it the pictures of its images."
