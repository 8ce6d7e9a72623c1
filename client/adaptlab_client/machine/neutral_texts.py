"""Neutral texts that Python itself ships: its manual, and its library.

Both are under the licence of Python (PSF-2.0). They show what a model keeps, not what it can do:
published models have read them.
"""

import platform
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Literal, get_args

Genre = Literal["prose", "code"]
GENRES: tuple[Genre, ...] = get_args(Genre)
FEWEST_BYTES = 40
"""Shorter passages are left out."""
MOST_MODULES = 120


def source() -> Mapping[str, str]:
    """Return where the texts are from, as datasets record it."""
    return {"package": "python", "version": platform.python_version(), "licence": "PSF-2.0"}


def neutral_records(genre: Genre, passages: int, longest: int) -> list[dict[str, str]]:
    """Return passages as records with text, chapter, genre and split.

    Args:
        genre: `prose` are the topics of Python's manual (`pydoc_data.topics`), `code` the first
            modules of its standard library by name. Topics and modules are the chapters.
        passages: the number of passages, taken from all chapters in turn.
        longest: the most bytes of a passage in UTF-8; it ends at the end of a line.
    """
    chapters = [
        [(name, text) for text in _passages(content, longest)] for name, content in _READ[genre]()
    ]
    turns = (one for turn in zip_longest(*chapters) for one in turn if one is not None)
    return [
        {"text": text, "chapter": name, "genre": genre, "split": "test"}
        for name, text in islice(turns, passages)
    ]


def _prose() -> Iterator[tuple[str, str]]:
    from pydoc_data.topics import topics  # half a megabyte that no other command reads

    yield from sorted(topics.items())


def _code() -> Iterator[tuple[str, str]]:
    folder = Path(sysconfig.get_path("stdlib"))
    for file in islice(sorted(folder.glob("[a-z]*.py")), MOST_MODULES):
        yield file.stem, file.read_text(encoding="utf-8", errors="replace")


_READ: Mapping[Genre, Callable[[], Iterator[tuple[str, str]]]] = {"prose": _prose, "code": _code}


def _passages(content: str, longest: int) -> Iterator[str]:
    """Yield whole lines of at most so many bytes together."""
    lines: list[str] = []
    for line in content.splitlines():
        if lines and _size([*lines, line]) > longest:
            yield from _long_enough(lines)
            lines = []
        if _size([line]) <= longest:
            lines.append(line)
    yield from _long_enough(lines)


def _long_enough(lines: Sequence[str]) -> Iterator[str]:
    text = "\n".join(lines).strip("\n")
    if len(text.encode()) >= FEWEST_BYTES:
        yield text


def _size(lines: Sequence[str]) -> int:
    return len("\n".join(lines).encode())
