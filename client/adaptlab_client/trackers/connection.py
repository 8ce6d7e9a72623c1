"""Requests of a client to a tracker."""

from collections.abc import Mapping
from typing import Any, cast

import httpx

from adaptlab.errors import TrackerRefused
from adaptlab_answers.trackers.board import TrackerAnswer

SECONDS = 60.0
"""Limit on a request."""
LONGEST_TEXT = 300


class HttpConnection:
    """Requests to one tracker; see `TrackerConnection`.

    Args:
        name: the tracker's name in errors.
        place: its address, without credentials.
        client: the client that sends, with credentials.
        how_to_sign_in: the sentence that follows a refusal of the credentials.
    """

    def __init__(self, name: str, place: str, client: httpx.Client, how_to_sign_in: str) -> None:
        self.place = place
        self.how_to_sign_in = how_to_sign_in
        self._name = name
        self._client = client

    def ask(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> TrackerAnswer:
        """Send a request once; raises `TrackerRefused` without an answer."""
        try:
            answer = self._client.request(method, f"{self.place}{path}", json=body)
        except httpx.HTTPError as error:
            detail = f"{self._name} at {self.place} does not answer: {error}."
            raise TrackerRefused(f"{detail} Check that it runs there.") from error
        return TrackerAnswer(answer.status_code, _document(answer), answer.text[:LONGEST_TEXT])


def _document(answer: httpx.Response) -> dict[str, Any] | None:
    if "json" not in answer.headers.get("content-type", ""):
        return None
    try:
        document: object = answer.json()
    except ValueError:
        return None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None
