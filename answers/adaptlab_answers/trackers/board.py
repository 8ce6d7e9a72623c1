"""What is needed of a tracker: a connection, and a place for runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from adaptlab_answers.trackers.tracked_runs import TrackedRun


@dataclass(frozen=True, slots=True)
class TrackerAnswer:
    """An answer of a tracker.

    Attributes:
        status: the HTTP status.
        document: its JSON; None if it is something else.
        text: the beginning of an answer that reports an error.
    """

    status: int
    document: dict[str, Any] | None  # Any: the tracker's JSON
    text: str

    @property
    def is_success(self) -> bool:
        """Return True for a JSON object that came with a status of success."""
        return 200 <= self.status < 300 and self.document is not None


class TrackerConnection(Protocol):
    """Requests to one tracker, with its credentials.

    Attributes:
        place: its address, without credentials.
        how_to_sign_in: the sentence that follows a refusal of the credentials.
    """

    place: str
    how_to_sign_in: str

    def ask(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> TrackerAnswer:
        """Send a request once, to a path below the address.

        Raises `TrackerRefused` without an answer.
        """
        ...


class Board(Protocol):
    """Where runs are sent; what is there is not doubled.

    Attributes:
        place: its address or folder.
    """

    place: str

    def send(self, runs: Iterable[TrackedRun]) -> int:
        """Send runs, the next one when the one before is there.

        Returns their number. Raises `TrackerRefused`.
        """
        ...
