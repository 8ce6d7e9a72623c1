"""The one channel through which a run speaks to whoever started it."""

from typing import Literal, Protocol

from adaptlab.measurements.results import Event

Command = Literal["continue", "save", "stop"]


class Observer(Protocol):
    """Receives events and says how the run shall go on."""

    def emit(self, event: Event) -> None:
        """Take note of something that happened."""
        ...

    def command(self) -> Command:
        """Asked after every step: go on, save the state of the training first, or stop."""
        ...
