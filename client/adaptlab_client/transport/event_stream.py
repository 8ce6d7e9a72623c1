"""Server-sent events, read by httpx-sse, with a limit on their lines."""

from collections.abc import Iterable, Iterator

import httpx
from httpx_sse import EventSource, ServerSentEvent

from adaptlab_client.errors import UnexpectedAnswer

LONGEST_LINE = 8 * 2**20
"""In bytes; the longest events of a server are a few kilobytes."""
MEDIA_TYPE = "text/event-stream"


def is_event_stream(response: httpx.Response) -> bool:
    """Return True if the response announces an event stream."""
    return response.headers.get("Content-Type", "").startswith(MEDIA_TYPE)


def messages(chunks: Iterable[bytes]) -> Iterator[ServerSentEvent]:
    """Yield the complete messages of a stream; a partial one is dropped.

    Raises `UnexpectedAnswer` for a line of more than `LONGEST_LINE` bytes.
    """
    # httpx-sse reads a response, so the limited chunks become one.
    response = httpx.Response(200, headers={"Content-Type": MEDIA_TYPE}, content=_limited(chunks))
    # It also yields a message without data for a comment, which the standard does not dispatch.
    return (message for message in EventSource(response).iter_sse() if message.data)


def _limited(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks; raise `UnexpectedAnswer` at a line that is too long.

    httpx-sse keeps an unfinished line in memory, however long it is.
    """
    pending = 0
    for chunk in chunks:
        line_end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
        pending = len(chunk) - line_end - 1 if line_end >= 0 else pending + len(chunk)
        if pending > LONGEST_LINE:
            raise UnexpectedAnswer(
                f"A line of the event stream is longer than {LONGEST_LINE:,} bytes."
            )
        yield chunk
