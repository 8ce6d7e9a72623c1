"""Event streams, however they are cut into chunks."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from adaptlab_client.transport.event_stream import Message, messages

STREAM = (
    ': hello\n\nid: 1\nevent: queued\ndata: {"a": "\u2028 \x85 é"}\n\n'
    "event: progress\r\ndata:two\r\ndata:  lines\r\n\r\nid:7\rdata: x\r\rdata: never ended"
).encode()
EXPECTED = [
    Message("1", "queued", '{"a": "\u2028 \x85 é"}'),
    Message(None, "progress", "two\n lines"),
    Message("7", "message", "x"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12).map(sorted))
def test_messages_do_not_depend_on_where_chunks_end(cuts: list[int]) -> None:
    edges = [0, *cuts, len(STREAM)]
    chunks = [STREAM[start:end] for start, end in itertools.pairwise(edges)]
    assert list(messages(chunks)) == EXPECTED
