"""Names of compared rows within sentences: "full fine-tuning", "LoRA"."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from adaptlab.errors import UnknownName
from adaptlab.plugins.method import METHODS, Method

_NAMED = re.compile(r"([a-z0-9_]+)(?: ?([(].*)|( on .*| at [\d,]+(?: [(].*)?))?", re.DOTALL)
"""The name of a method, then the knobs, base model, budget or job that distinguish its row."""


class NamedRow(Protocol):
    """The members of a row that its name depends on."""

    @property
    def method(self) -> str:
        """The name of the row without its budget."""
        ...

    @property
    def label(self) -> str:
        """The name of the row with its budget."""
        ...


class RowNames:
    """The names of rows at one budget within a sentence, by their labels.

    Labels that users gave stay as they are. Rows that would share a name keep their labels.
    """

    def __init__(self, rows: Sequence[NamedRow]) -> None:
        names = {row.label: method_in_sentence(row.method) for row in rows}
        shared = [*names.values()]
        self._given = {row.label: (row.label, row.method) for row in rows}
        self._names = {
            label: label if shared.count(name) > 1 else name for label, name in names.items()
        }

    def of(self, label: str) -> str:
        """Return the name of a row."""
        return self._names[label]

    def starting(self, text: str, label: str) -> str:
        """Return a sentence that starts with the name of a row, with its capital."""
        is_title = self._names[label] not in self._given[label]
        return text[:1].upper() + text[1:] if is_title else text

    def continued(self, sentence: str) -> str:
        """Return a sentence without the capital of its first word."""
        for name in sorted(self._names.values(), key=len, reverse=True):
            if sentence.startswith(name[:1].upper() + name[1:]):
                return name + sentence[len(name) :]
        return sentence[:1].lower() + sentence[1:]


def row_titles(names: Sequence[str]) -> Mapping[str, str]:
    """Return the titles of rows by their names.

    Rows that would share a title keep their names.
    """
    titles = {name: row_title(name) for name in names}
    shared = [*titles.values()]
    return {name: name if shared.count(title) > 1 else title for name, title in titles.items()}


def row_title(label: str) -> str:
    """Return the name in a table: "LoRA at 64" for "lora at 64"."""
    return _named(label, lambda method: method.title)


def first_in_sentence(label: str) -> str:
    """Return the name at the start of a sentence, with its capital."""
    return starting(method_in_sentence(label), label)


def starting(text: str, label: str) -> str:
    """Return a text that starts with the name of a row, with its capital.

    What users gave as a label stays as it is.
    """
    is_title = method_in_sentence(label) != label
    return text[:1].upper() + text[1:] if is_title else text


def method_in_sentence(label: str) -> str:
    """Return the name within a sentence: "LoRA (rank=4)" for "lora(rank=4)"."""
    return _named(label, lambda method: method.in_sentence())


def _named(label: str, name_of: Callable[[type[Method]], str]) -> str:
    """Return the name that a label starts with, and the rest of it."""
    if (parts := _NAMED.fullmatch(label)) is None:
        return label
    try:
        name = name_of(METHODS.get(parts[1]))
    except UnknownName:
        return label
    return f"{name} {parts[2]}" if parts[2] else f"{name}{parts[3] or ''}"
