"""Server-sent events: the lines of a stream as messages (WHATWG HTML, section 9.2).

Ours because httpx splits lines at every Unicode line separator, which may stand inside a JSON
string, and an event stream only at CR and LF.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

LONGEST_MESSAGE = 8 * 2**20


class Message(NamedTuple):
    """One message; `id` is None when it carried none."""

    id: str | None
    event: str
    data: str


def messages(chunks: Iterable[bytes]) -> Iterator[Message]:
    """The complete messages in a stream; one that is cut off is dropped, as the standard says."""
    identity: str | None = None
    event, data = "", list[str]()
    for line in lines(chunks):
        if not line:
            if data:
                yield Message(identity, event or "message", "\n".join(data))
            identity, event, data = None, "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            event = value
        elif field == "id" and "\0" not in value:
            identity = value


def lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """The complete lines of a stream, ended by LF, CR LF or CR."""
    rest = b""
    for chunk in chunks:
        rest += chunk
        held = rest.endswith(b"\r")  # its LF may come with the next chunk
        whole = rest[:-1] if held else rest
        *complete, last = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        rest = last + (b"\r" if held else b"")
        if len(rest) > LONGEST_MESSAGE:
            raise ValueError(f"A line of an event stream is longer than {LONGEST_MESSAGE} bytes.")
        yield from (line.decode(errors="replace") for line in complete)
