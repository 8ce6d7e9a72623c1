"""One change: its unit of work, its audit entry, and the doorbell."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from adaptlab.values import Value
from adaptlab_api.answers.answers import Done, changed_headers, tagged_answer
from adaptlab_api.answers.state import Resources, resources_of
from adaptlab_api.limits.auditing import entry_of, noted, was_noted
from adaptlab_api.requests.dependencies import at_once, principal_of, units_of
from adaptlab_services.people.audit import Entry
from adaptlab_services.people.tokens import Principal

R = TypeVar("R", bound=Response)


class ChangeInProgress:
    """A change in progress, in the unit of work `session`, with one answer."""

    def __init__(self, session: Session, request: Request) -> None:
        self.session = session
        self.queues: tuple[str, ...] = ()
        self._request = request
        self._entry: Entry | None = None

    @property
    def who(self) -> Principal:
        """The user who makes the change."""
        return principal_of(self._request)

    @property
    def opened(self) -> Resources:
        """The application's resources."""
        return resources_of(self._request.app)

    def answered(self, answer: R) -> R:
        """Write the entry of the change; return its answer."""
        return noted(self.session, self._request, answer)

    def entry(self, status: int) -> Entry:
        """Return the audit entry, for a service that writes it itself.

        `made` then writes no second entry.
        """
        self._entry = entry_of(self._request, status)
        return self._entry

    def made(self, value: Value, done: Done, *, location: str | None = None) -> Response:
        """Return what was changed or created; the queues with new work are rung."""
        self.queues = done.queues
        status = 201 if location and not done.replayed else 200
        answer = tagged_answer(value, status=status, headers=changed_headers(done, location))
        if self._entry is None or done.replayed:
            return self.answered(answer)
        was_noted(self._request, self._entry)
        return answer


Changes = Callable[[], AbstractContextManager[ChangeInProgress]]
"""Begins a change; the end of the block commits it and rings its queues."""


def changes_of(request: Request) -> Changes:
    """Return the function with which a route makes a change within one thread."""
    return partial(_changing, request)


@contextmanager
def _changing(request: Request) -> Generator[ChangeInProgress]:
    with units_of(request)() as session:
        change = ChangeInProgress(session, request)
        yield change
    # After the commit: a message about a job that is not stored yet would be lost.
    if change.queues:
        change.opened.bell.ring(change.queues)


ChangesDep = Annotated[Changes, Depends(at_once(changes_of))]
