"""Runs on a Trackio server."""

import os
from collections.abc import Iterable
from urllib.parse import parse_qs, urlsplit

import httpx

from adaptlab_answers.trackers.tracked_runs import TrackedRun
from adaptlab_answers.trackers.trackio import TOKEN_HEADER, TrackioProject
from adaptlab_client.trackers.connection import SECONDS, HttpConnection


class TrackioServer:
    """A project on a Trackio server.

    Args:
        url: address of the server, as `trackio show` prints it, also with its `write_token`.
        project: name of the project, which is created if it is not there.
        transport: how requests are sent; the default is the network.

    Without a token in the address, TRACKIO_WRITE_TOKEN is sent. Every method raises
    `TrackerRefused`.
    """

    def __init__(
        self, url: str, project: str = "adaptlab", transport: httpx.BaseTransport | None = None
    ) -> None:
        parts = urlsplit(url)
        self.place = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        (named,) = parse_qs(parts.query).get("write_token", [""])[:1]
        self._token = named or os.environ.get("TRACKIO_WRITE_TOKEN", "")
        self._project = project
        self._transport = transport

    def send(self, runs: Iterable[TrackedRun]) -> int:
        """Send runs that have figures; return their number."""
        headers = {TOKEN_HEADER: self._token} if self._token else {}
        with httpx.Client(headers=headers, timeout=SECONDS, transport=self._transport) as client:
            connection = HttpConnection("Trackio", self.place, client, "Set TRACKIO_WRITE_TOKEN.")
            return TrackioProject(connection, self._project).send(runs)
