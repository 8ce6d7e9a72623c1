"""Pictures of test items on pages: addresses, sizes and missing ones."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.plugins.image_task import ImageTask
from adaptlab_services.results import item_pictures

LONGEST_SIDE = 96
"""Pixels of the longer side of a picture in a table."""


@dataclass(frozen=True, slots=True)
class ItemPicture:
    """A picture on a page.

    It `is_enlarged` if one of its pixels takes several of the screen.
    """

    address: str
    width: int
    height: int
    is_enlarged: bool

    @classmethod
    def of(cls, task: ImageTask, job_id: UUID, task_place: int, item: int) -> "ItemPicture":
        """Return the picture of an item in a table."""
        _, height, width = task.image()
        scale = LONGEST_SIDE / max(height, width)
        return cls(
            f"/v1/jobs/{job_id}/answers/{task_place}/{item}/picture",
            max(round(scale * width), 1),
            max(round(scale * height), 1),
            scale > 1,
        )


@dataclass(frozen=True, slots=True)
class Pictures:
    """The pictures of one task of a job, or the reason why there are none."""

    job_id: UUID
    task_place: int
    task: ImageTask
    missing: str | None

    @classmethod
    def find(
        cls, session: Session, job_id: UUID, tasks: dict[int, ImageTask], task_place: int
    ) -> "Pictures | None":
        """Return the pictures of a task, None if its items are no images."""
        task = tasks.get(task_place)
        if task is None:
            return None
        return cls(job_id, task_place, task, item_pictures.missing_reason(session, task))

    def at(self, item: int) -> ItemPicture | None:
        """Return the picture of an item, if there is one."""
        if self.missing:
            return None
        return ItemPicture.of(self.task, self.job_id, self.task_place, item)
