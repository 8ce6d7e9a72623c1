"""One change on behalf of somebody: its unit of work, its entry in the audit log, the doorbell."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from adaptlab.values import Value
from adaptlab_api.answers import Done, changed_headers, tagged_answer
from adaptlab_api.auditing import noted
from adaptlab_api.dependencies import ResourcesDep, Units, UnitsDep
from adaptlab_api.state import Resources

R = TypeVar("R", bound=Response)


class Change:
    """A change under way: what it does it does in `session`, and it has one answer."""

    def __init__(self, session: Session, request: Request) -> None:
        self.session = session
        self.queues: tuple[str, ...] = ()
        self._request = request

    def answered(self, answer: R) -> R:
        """The answer to the change, which is written down beside it."""
        return noted(self.session, self._request, answer)

    def made(self, value: Value, done: Done, *, location: str | None = None) -> Response:
        """What was changed, or created at `location`; the queues with new work are rung."""
        self.queues = done.queues
        status = 201 if location and not done.replayed else 200
        headers = changed_headers(done, location)
        return self.answered(tagged_answer(value, status=status, headers=headers))


Changes = Callable[[], AbstractContextManager[Change]]
"""Begins a change; it is committed at the end of the block, and then its queues are rung."""


async def changes(request: Request, opened: ResourcesDep, opens: UnitsDep) -> Changes:
    """How a route changes something, all of it in one thread; a FastAPI dependency."""
    return partial(_changing, request, opened, opens)


@contextmanager
def _changing(request: Request, opened: Resources, opens: Units) -> Generator[Change]:
    with opens() as session:
        change = Change(session, request)
        yield change
    # After the commit: a message about a job that is not there yet would be lost.
    if change.queues:
        opened.bell.ring(change.queues)


ChangesDep = Annotated[Changes, Depends(changes)]
