"""Checks of reported confusions of labels."""

from collections.abc import Iterator, Sequence

from adaptlab.errors import Problem
from adaptlab.records.facts import MOST_CONFUSED
from adaptlab.runs.bounds import brief, equal
from adaptlab.runs.events import Confusion, Evaluation


def confusion_problems(
    at: str, evaluation: Evaluation, confusion: Confusion, labels: Sequence[str]
) -> Iterator[Problem]:
    """Yield a problem unless a confusion fits the task and the score.

    Labels may come in any order, since stored specs do not keep that of label words.
    """
    at = f"{at}/confusion"
    if not 2 <= len(labels) <= MOST_CONFUSED:
        detail = (
            f"Confusions are kept of tasks with 2 to {MOST_CONFUSED} labels, and this one has "
            f"{len(labels)}. Leave the confusion out."
        )
        yield Problem(at, "not_asked_for", detail)
        return
    if sorted(confusion.labels) != sorted(labels):
        detail = (
            f"{brief(confusion.labels)} are not the labels of the task. Send each of "
            f"{brief(tuple(labels))} once."
        )
        yield Problem(f"{at}/labels", "other_labels", detail)
        return
    sizes = [len(confusion.counts), *map(len, confusion.counts)]
    if sizes != [len(labels)] * (len(labels) + 1):
        detail = f"The counts are not {len(labels)} rows of {len(labels)}. Send one per label."
        yield Problem(f"{at}/counts", "wrong_length", detail)
        return
    counts = [number for row in confusion.counts for number in row]
    if min(counts) < 0:
        detail = f"{brief(min(counts))} items cannot have been counted. Send counts from 0."
        yield Problem(f"{at}/counts", "out_of_range", detail)
        return
    right = sum(row[place] for place, row in enumerate(confusion.counts))
    yield from equal(f"{at}/counts", sum(counts), evaluation.total, "number of counted items")
    yield from equal(f"{at}/counts", right, evaluation.correct, "number of right items")
