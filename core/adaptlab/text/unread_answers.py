"""Fields that look like answers, and that no task reads as they are."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import cast

from adaptlab.records.facts import MOST_WORDS, FieldFacts

SEPARATORS = (";", "|", ",")
"""Signs between the labels of one record, such as `bug;login`."""
LONGEST_LABEL = 40
"""Characters of a label beside others."""
FEWEST_RECORDS = 5
"""Records of each label on average: words of a sentence and answers recur less."""
JOINED_SHARE = 0.1
"""Share of records with several labels, from which a field has several."""
SCALES = (
    *("score", "rating", "similarity", "similarity_score", "relatedness", "relatedness_score"),
    *("label", "target", "grade", "stars", "points", "value", "y"),
)
"""Usual names of a number to be predicted."""
_LETTER = re.compile(r"[^\W\d_]")
_WORDS, _TAGS = ("tokens", "words"), re.compile(r"(?i)(.*_)?(tags|labels)(_ids)?")


def several_labels(field: FieldFacts) -> Mapping[str, int]:
    """Return the labels of a field in which records have several.

    They are lists, or texts with the same sign between labels. Each label has the number of its
    records; without such a field the result is empty.
    """
    values = {one.value: one.count for one in field.values or ()}
    lists = {value: _members(value) for value in values}
    if values and all(found is not None for found in lists.values()):
        return _shared({value: found or () for value, found in lists.items()}, values)
    for sign in SEPARATORS:
        parts = {value: [one.strip() for one in value.split(sign)] for value in values}
        found = _shared(parts, values)
        if found and (sign != "," or all(map(_LETTER.search, found))):  # 1,5 is a number
            return found
    return {}


def tags_of_words(names: Iterable[str]) -> str | None:
    """Return the field with a tag for every word, None if there is none."""
    written = {name.lower(): name for name in names}
    if not any(name in written for name in _WORDS):
        return None
    return next((name for key, name in written.items() if _TAGS.fullmatch(key)), None)


def _members(value: str) -> list[str] | None:
    """Return the members of a list in JSON, None for another value."""
    if not (value.startswith("[") and value.endswith("]")):
        return None
    try:
        read: object = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return [str(one) for one in cast("list[object]", read)] if isinstance(read, list) else None


def _shared(parts: Mapping[str, Iterable[str]], counts: Mapping[str, int]) -> Mapping[str, int]:
    """Return the records of each part; empty unless parts are labels.

    Labels are few and short, recur, and stand beside different others.
    """
    found: Counter[str] = Counter()
    joined = 0
    for value, names in parts.items():
        labels = {*names}
        found.update(dict.fromkeys(labels, counts[value]))
        joined += counts[value] if len(labels) > 1 else 0
    records = sum(counts.values())
    are_labels = (
        1 < len(found) <= MOST_WORDS
        and len(found) < len(parts)
        and max(map(len, found)) <= LONGEST_LABEL
        and found.total() >= FEWEST_RECORDS * len(found)
        and joined >= JOINED_SHARE * records
    )
    return dict(found.most_common()) if are_labels else {}
