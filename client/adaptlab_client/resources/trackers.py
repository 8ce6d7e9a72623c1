"""The trackers of a server: boards to which it sends studies."""

from collections.abc import Iterator

from pydantic import JsonValue

from adaptlab_answers.trackers.views import TrackerKind, TrackerView
from adaptlab_client.transport.connection import Connection, Request, path_of
from adaptlab_client.transport.paging import entries


class Trackers:
    """Trackers of the projects in which you are an operator."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(
        self,
        kind: TrackerKind,
        url: str,
        *,
        experiment: str = "adaptlab",
        token: str | None = None,
    ) -> TrackerView:
        """Add a tracker to the client's project, as an admin of it.

        `experiment` is that of MLflow, or the project of Trackio. MLflow gets a token with a colon
        as user and password, others as a bearer token.
        """
        body: dict[str, JsonValue] = {"kind": kind, "url": url, "experiment": experiment}
        if token is not None:
            body["token"] = token
        request = Request("POST", path_of("trackers"), body=body, repeatable=False)
        return self._connection.ask(request, TrackerView)

    def list(self) -> Iterator[TrackerView]:
        """Iterate over the trackers, with the last error of each."""
        return entries(self._connection, path_of("trackers"), TrackerView)

    def remove(self, tracker_id: int) -> None:
        """Remove a tracker; what was sent to it stays there."""
        self._connection.send(Request("DELETE", path_of("trackers", tracker_id)))
