"""One kept-alive HTTP connection: a minimal client."""

import http.client
import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 60.0  # seconds for an answer
IDLE = 2.0  # seconds, after which a server may be about to hang up


class Connection:
    """A connection that sends requests to one server, one at a time.

    Args:
        url: of the server.
        token: sent along with every request, if there is one.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._used_at = time.monotonic()

    def get(self, path: str) -> Any:
        """Return the document at `path`; None for a page, read to its end."""
        return self._call("GET", path, None, {})

    def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Any:
        """Post a document and return the answer."""
        return self._call("POST", path, json.dumps(body).encode(), headers or {})

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _call(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        if time.monotonic() - self._used_at > IDLE:
            self.close()  # and the request opens it again
        self._connection.request(method, path, body, self._headers | dict(headers))
        answer = self._connection.getresponse()
        content = answer.read()
        self._used_at = time.monotonic()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path} was answered {answer.status}: {content[:500]!r}")
        is_json = "json" in answer.headers.get("Content-Type", "")
        return json.loads(content) if content and is_json else None
