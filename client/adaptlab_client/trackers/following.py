"""Studies sent to a board as they change."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from adaptlab.errors import TrackerRefused
from adaptlab_answers.studies import StudySummary
from adaptlab_answers.trackers.board import Board
from adaptlab_client.errors import (
    NotFound,
    ServerUnavailable,
    ServerUnreachable,
    TooManyRequests,
)
from adaptlab_client.trackers.tracked_runs import tracked_runs

if TYPE_CHECKING:
    from adaptlab_client.client import Client

LONGEST_PAUSE = 600.0
"""Seconds between attempts, at most."""


class Following:
    """Sends studies to a board until it is stopped.

    Nothing waits for the board: what it lacks is sent when it answers again. What was sent is not
    kept between starts, so a start sends every study once more.

    Args:
        client: a client of the server.
        board: where studies are sent.
        names: names or ids of studies; none for all that the client can read.
        interval: seconds between looks at the server.
        say: is told a line about what was sent, and what could not be.
    """

    def __init__(
        self,
        client: "Client",
        board: Board,
        names: Sequence[str],
        interval: float,
        say: Callable[[str], None],
    ) -> None:
        self._client = client
        self._board = board
        self._names = names
        self._interval = interval
        self._say = say
        self._sent: dict[str, str] = {}

    def run(self, sleep: Callable[[float], object] = time.sleep) -> None:
        """Look until interrupted, more rarely while somebody does not answer."""
        pause = self._interval
        while True:
            try:
                self.look()
                pause = self._interval
            except (
                TrackerRefused,
                ServerUnreachable,
                ServerUnavailable,
                TooManyRequests,
            ) as error:
                self._say(f"{error} The next attempt is in {pause:.0f} s.")
                sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            sleep(pause)

    def look(self) -> int:
        """Send each study that runs or has changed, the oldest first.

        Returns the number of studies that were sent. Raises `TrackerRefused` and the client's
        errors.
        """
        number = 0
        for study in reversed(list(self._studies())):
            state = study.model_dump_json()
            if study.terminal and self._sent.get(str(study.id)) == state:
                continue
            try:
                found = self._client.studies.get(study.id)
                runs = self._board.send(tracked_runs(self._client, found))
            except NotFound:  # deleted since it was listed
                continue
            if self._sent.get(str(study.id)) != state:
                self._say(f"{study.name}, {study.state}: {runs} runs")
            self._sent[str(study.id)] = state
            number += 1
        return number

    def _studies(self) -> Iterable[StudySummary]:
        if self._names:
            return [self._client.studies.get(name) for name in self._names]
        return self._client.studies.list()
