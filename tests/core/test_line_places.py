"""Places of lines: any line of some blocks, read from its own."""

import random

import pytest

from adaptlab.records import line_places
from adaptlab.records.line_places import feeds_before_blocks, line_at


@pytest.mark.parametrize("block", [1, 7, 64, 4096])
def test_every_line_is_the_one_that_splitting_finds(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_places, "BLOCK", block)
    drawing = random.Random(block)
    lines = [b"x" * drawing.choice((0, 1, 2, 6, 7, 8, 63, 64, 200)) for _ in range(60)]
    content = b"\n".join(lines) + b"\n"
    cuts = sorted(drawing.sample(range(len(content)), 9))
    pieces = [content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    feeds = feeds_before_blocks(pieces)
    assert len(feeds) == len(content) // block + 1
    starts: list[int] = []

    def read(start: int):
        starts.append(start)
        yield content[start:]

    for number, line in enumerate(lines, 1):
        found = line_at(feeds, number, read)
        assert found is not None
        assert found.content == line
        place = sum(map(len, lines[: number - 1])) + number - 1
        assert place - starts[-1] <= block, "no more than its block and the line are read"
    assert line_at(feeds, len(lines) + 1, read) is None


def test_content_without_lines_has_none() -> None:
    assert line_at(feeds_before_blocks([]), 1, lambda _: iter(())) is None
