"""Extraction and comparison of generated answers, as lm-eval defines them.

As a program it reads lines of JSON, each with a text, steps, a rule and targets, and writes the
extracted answer and whether it is right. Its argument is the limit on the processor's seconds for
one, above which the kernel ends it: some regular expressions take hours. It imports nothing of
adaptlab, so it starts fast.

Source: lm-eval 0.4.13, `filters/extraction.py`, `filters/transformation.py` and `exact_match` of
`api/metrics.py`.
"""

import json
import re
import resource
import string
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

MOST_BYTES = 2**30
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DIGITS = str.maketrans("", "", string.digits)

Members = Mapping[str, Any]  # Any: texts, numbers and lists of JSON


def extracted(text: str, steps: Sequence[Members]) -> str:
    """Return what the steps of a filter leave of an answer, in order."""
    for step in steps:
        text = STEPS[step["function"]](text, step)
    return text


def is_right(answer: str, targets: Sequence[str], rule: Members) -> bool:
    """Return True if an extracted answer equals one of the targets.

    Regular expressions of the rule are removed from both first, then capitals, punctuation and
    digits.
    """
    return _compared(answer, rule) in {_compared(target, rule) for target in targets}


def _compared(text: str, rule: Members) -> str:
    for pattern in rule["regexes_to_ignore"]:
        text = re.sub(pattern, "", text)
    if rule["ignore_case"]:
        text = text.lower()
    if rule["ignore_punctuation"]:
        text = text.translate(_PUNCTUATION)
    if rule["ignore_numbers"]:
        text = text.translate(_DIGITS)
    return text.rstrip("\0")  # the harness compares arrays, which end there


def _match(text: str, step: Members) -> str:
    """Return one of all matches; of its groups, the first that has text."""
    matches: list[Any] = re.findall(step["regex_pattern"], text)
    place = step["group_select"]
    if not -len(matches) <= place < len(matches):
        return step["fallback"]
    found: str | tuple[str, ...] = matches[place]
    groups = (found,) if isinstance(found, str) else tuple(filter(None, found))
    return (groups or (step["fallback"],))[0].strip()


def _spans(text: str, _: Members) -> str:
    """Return labelled spans as `label: value $ label: value`, without `none`."""
    text = text.lower()
    for word, label in LABELS.items():
        text = re.sub(rf"\b{word}\s*:", f"{label}:", text)
    text = text.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
    found = re.findall(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)", text)
    each = ((label, value.strip()) for label, values in found for value in values.split(","))
    return " $ ".join(
        f"{label.lower()}: {value}" for label, value in each if value.lower() != "none"
    )


LABELS: Mapping[str, str] = {
    "person": "PER", "location": "LOC", "organization": "ORG", "counties": "LOC", "places": "LOC",
    "people": "PER", "persons": "PER", "company": "ORG", "country": "LOC", "continent": "LOC",
    "time": "DATE", "date": "DATE", "per": "PER", "loc": "LOC", "org": "ORG",
}  # fmt: skip
"""The labels of spans by the words for them, in the order of replacement."""
STEPS: Mapping[str, Callable[[str, Members], str]] = {
    "regex": _match,
    "remove_whitespace": lambda text, _: text.strip(),
    "lowercase": lambda text, _: text.lower(),
    "uppercase": lambda text, _: text.upper(),
    "map": lambda text, step: dict(step["mapping"]).get(text, step["default_value"]),
    "format_span": _spans,
}
"""What each step makes of a text."""


def serve(seconds: int) -> None:
    """Answer lines from stdin until it ends."""
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    _write("ready")
    for line in sys.stdin:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        used = int(usage.ru_utime + usage.ru_stime)
        resource.setrlimit(resource.RLIMIT_CPU, (used + seconds + 1, resource.RLIM_INFINITY))
        text, steps, rule, targets = json.loads(line)
        answer = extracted(text, steps)
        _write([answer, is_right(answer, targets, rule)])


def _write(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
