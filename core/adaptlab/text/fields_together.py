"""Fields of records that belong together, by their usual names."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

ANSWERS: Mapping[str, tuple[str, ...]] = {
    "prompt": ("completion", "response", "answer", "output", "target", "chosen"),
    "instruction": ("output", "response", "completion", "answer"),
    "question": ("answer", "answers", "response"),
    "problem": ("solution", "answer"),
    "query": ("answer", "response"),
    "input": ("output", "response", "target"),
}
"""Usual names of a prompt and of its answer."""

REWRITTEN: Mapping[str, tuple[str, ...]] = {
    "source": ("target",),
    "src": ("tgt", "target"),
    "article": ("highlights", "summary"),
    "document": ("summary",),
    "dialogue": ("summary",),
    "text": ("summary",),
}
"""Usual names of a text and of its translation or summary, which may lie beside a label."""

TOGETHER: tuple[tuple[str, ...], ...] = (
    ("instruction", "input", "context"),
    ("question", "context", "passage", "paragraph", "story", "article", "sentence", "hypothesis"),
    ("premise", "hypothesis"),
    ("query", "passage", "document"),
    ("claim", "evidence"),
)
"""Usual names of fields that a prompt reads together, in its order."""

HEADINGS = ("subject", "title", "headline")
BODIES = (
    *("body", "text", "content", "description", "message", "abstract", "article", "review"),
    *("comment", "plot"),
)
"""Usual names of a text under a heading."""

OPTIONS = (
    *("option", "opt", "op", "choice", "ending", "sol", "solution", "alternative", "answer"),
    *("candidate", "hypothesis", "completion", "response"),
)
"""Usual names of choices, before their letter or number."""

_NUMBERED = re.compile(r"(?i)(?P<stem>.*?)[ _.-]?(?P<mark>[a-j]|\d)")
_MARKS = "0123456789abcdefghij"
_NO_TEXT = re.compile(
    r"(?i)(.*[ _.-])?(id|qid|idx|index|uuid|guid|url|date|time|timestamp|created|no)[0-9]*"
)


def answered(names: Iterable[str], usual: Mapping[str, tuple[str, ...]]) -> tuple[str, str] | None:
    """Return a prompt and its answer, None without a usual pair."""
    written = {name.lower(): name for name in names}
    for prompt, answers in usual.items():
        answer = next((one for one in answers if one in written), None)
        if prompt in written and answer is not None:
            return written[prompt], written[answer]
    return None


def read_with(names: Sequence[str], text: str) -> tuple[str, ...]:
    """Return the fields that a prompt reads: a text, and what belongs to it.

    These are usual companions, a heading before its text, and the other one of a pair such as
    `sentence1` and `sentence2`.
    """
    written = {name.lower(): name for name in reversed(names)}
    key = text.lower()
    if pair := _pair(names, text):
        return pair
    orders = [order for order in TOGETHER if key in order]
    orders += [(heading, key) for heading in HEADINGS if key in BODIES]
    orders += [(key, body) for body in BODIES if key in HEADINGS]
    for order in orders:
        found = [text if one == key else written[one] for one in order if one in written]
        if len(found) > 1:
            return tuple(found)
    return (text,)


def options_of(names: Sequence[str], labels: Collection[str]) -> dict[str, str]:
    """Return the field with the text of each choice, by its label.

    Labels are letters or numbers that end the names of fields, such as `A`, `option_b` or
    `ending0`. Labels that begin with 0 also mean fields that begin with 1. Empty if there are none.
    """
    marks = {label: label.strip().lower() for label in labels}
    if len(marks) < 2 or not all(len(mark) == 1 and mark in _MARKS for mark in marks.values()):
        return {}
    texts = [name for name in names if not is_no_text(name)]
    for stem, fields in _families(texts).items():
        if stem and stem not in OPTIONS and len(fields) < 3:
            continue  # a pair of texts, and whether they are alike
        shift = "0" in marks.values() and "0" not in fields and "1" in fields
        wanted = {label: _next(mark) if shift else mark for label, mark in marks.items()}
        if len(fields) > 1 and all(mark in fields for mark in wanted.values()):
            return {label: fields[mark] for label, mark in wanted.items()}
    return {}


def is_no_text(name: str) -> bool:
    """Return True for a usual name of numbers, dates or addresses."""
    return _NO_TEXT.fullmatch(name) is not None


def _pair(names: Sequence[str], text: str) -> tuple[str, ...]:
    """Return both fields of a text's pair, empty if it has none."""
    for fields in _families(names).values():
        if text in fields.values() and "".join(sorted(fields)) in ("12", "ab"):
            return tuple(fields[mark] for mark in sorted(fields))
    return ()


def _families(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the names with one stem by their last letter or number."""
    found: dict[str, dict[str, str]] = {}
    for name in names:
        if match := _NUMBERED.fullmatch(name):
            found.setdefault(match["stem"].lower(), {})[match["mark"].lower()] = name
    return found


def _next(mark: str) -> str:
    return str(int(mark) + 1)
