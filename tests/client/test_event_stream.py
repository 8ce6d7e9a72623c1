"""Event streams, however they are cut into chunks."""

import itertools
from collections.abc import Iterator

import pytest
from httpx_sse import ServerSentEvent
from hypothesis import given
from hypothesis import strategies as st

from adaptlab_client import UnexpectedAnswer
from adaptlab_client.transport.event_stream import LONGEST_LINE, messages

STREAM = (
    ': hello\n\nid: 1\nevent: queued\ndata: {"a": "\u2028 \x85 é"}\n\n: still here\n\n'
    "event: progress\r\ndata:two\r\ndata:  lines\r\n\r\nid:7\rdata: x\r\rdata: never ended"
).encode()
EXPECTED = [
    ("1", "queued", '{"a": "\u2028 \x85 é"}'),
    ("1", "progress", "two\n lines"),
    ("7", "message", "x"),
]


def parts(message: ServerSentEvent) -> tuple[str, str, str]:
    return message.id, message.event, message.data


@given(st.lists(st.integers(0, len(STREAM)), max_size=12).map(sorted))
def test_messages_do_not_depend_on_where_chunks_end(cuts: list[int]) -> None:
    edges = [0, *cuts, len(STREAM)]
    chunks = [STREAM[start:end] for start, end in itertools.pairwise(edges)]
    assert [parts(message) for message in messages(chunks)] == EXPECTED


def test_an_endless_line_is_refused_before_it_fills_the_memory() -> None:
    chunk, sent = b"x" * 2**20, 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        yield b"data: first\n\ndata: "
        while True:
            sent += len(chunk)
            yield chunk

    stream = messages(endless())
    assert next(stream).data == "first"
    with pytest.raises(UnexpectedAnswer, match="longer than 8,388,608 bytes"):
        next(stream)
    assert sent <= LONGEST_LINE + len(chunk)


def test_many_short_lines_pass_the_limit_of_one() -> None:
    chunk = b"data: " + b"x" * 1000 + b"\n\n"
    count = LONGEST_LINE // len(chunk) + 10
    assert sum(1 for _ in messages(itertools.repeat(chunk, count))) == count
