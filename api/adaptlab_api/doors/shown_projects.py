"""The projects that a page shows, for the top of it."""

from contextvars import ContextVar
from dataclasses import dataclass

from adaptlab_services.people.access import Access


@dataclass(frozen=True, slots=True)
class ShownProjects:
    """The name of the chosen project, or whether there can be several.

    `are_named` if rows are shown with their projects, because there are several or others share.
    """

    chosen: str | None = None
    are_several: bool = False
    are_named: bool = False


_SHOWN: ContextVar[ShownProjects | None] = ContextVar("shown_projects", default=None)


def show(access: Access, *, is_one: bool) -> None:
    """Note for this request what its caller sees; `is_one` if it was chosen."""
    several = access.visible is None or len(access.visible) > 1
    named = several or bool(access.received)
    _SHOWN.set(ShownProjects(access.project if is_one else None, several, named))


def shown() -> ShownProjects:
    """Return what the caller of this request sees."""
    return _SHOWN.get() or ShownProjects()
