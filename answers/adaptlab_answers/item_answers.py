"""Test items with the answers that models gave."""

from adaptlab.runs.events import AnswerText, Excerpt
from adaptlab.values import Value


class GivenAnswer(AnswerText):
    """The answer that a model gave, and its outcome.

    `right` is null if the score of the replicate is not stored.
    """

    right: bool | None


class ItemAnswers(Value):
    """A test item, and the answers to it for one seed.

    `item` counts the test items of the task from 0; `line` is the line of its record in the
    dataset, from 1, and null for generated items. `attached` is the answer with the adaptation, or
    that of a model that was trained or imported as a whole; `detached` is that of the base model
    alone. `other` is the attached answer of the job that was named for comparison.
    """

    task_place: int
    task_name: str
    item: int
    line: int | None
    prompt: Excerpt
    expected: AnswerText
    replicate: int
    seed: int
    attached: GivenAnswer | None
    detached: GivenAnswer | None
    other: GivenAnswer | None = None


class AnsweredTask(Value):
    """A scored task whose items are shown, and the seeds with answers to it."""

    task_place: int
    task: dict[str, object]
    shown: int
    seeds: tuple[int, ...]
