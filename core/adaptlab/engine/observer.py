"""The only channel between a run and its caller."""

from typing import Literal, Protocol

from adaptlab.runs.events import Event

Command = Literal["continue", "save", "stop"]


class Observer(Protocol):
    """A receiver of events, which also decides how the run continues."""

    def emit(self, event: Event) -> None:
        """Receive an event."""
        ...

    def command(self) -> Command:
        """Return the next command; called after every step."""
        ...
