"""The one channel through which a run speaks to whoever started it."""

from typing import Protocol

from adaptlab.results import Event


class Observer(Protocol):
    """Receives events and says whether the run shall stop."""

    def emit(self, event: Event) -> None:
        """Take note of something that happened."""
        ...

    def should_stop(self) -> bool:
        """Whether to stop before the next step."""
        ...
