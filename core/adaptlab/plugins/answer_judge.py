"""Judgement of generated answers by their texts."""

import atexit
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

from adaptlab.records.generation import Generation
from adaptlab.text import answer_filters_child
from adaptlab.text.bounded_process import BoundedProcess

CHILD = Path(answer_filters_child.__file__)
CPU_SECONDS = 2
"""Of the processor, for one answer."""
WALL_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class AnswerJudge:
    """Decides by texts which decoded answers are right, where tokens do not.

    Attributes:
        generation: how the task generates and compares answers.
        name: the filter that reads answers.
    """

    generation: Generation
    name: str

    def cut(self, text: str) -> str:
        """Return an answer before its stop sequence."""
        return self.generation.cut(text)

    def is_right(self, text: str, targets: Sequence[str]) -> bool:
        """Return True if what is read from an answer is one of the targets.

        An answer whose comparison takes too long is wrong.
        """
        judged = self._judged(text, targets)
        return judged is not None and judged[1]

    def read(self, text: str, targets: Sequence[str]) -> str | None:
        """Return what is read from an answer, None if that takes too long."""
        judged = self._judged(text, targets)
        return None if judged is None else judged[0]

    def _judged(self, text: str, targets: Sequence[str]) -> tuple[str, bool] | None:
        # Members with defaults are left out of JSON, but the process reads all.
        steps = [dict(step) for step in self.generation.filter_named(self.name).steps]
        rule = dict(self.generation.match)
        found = _process().answer([text, steps, rule, list(targets)])
        return cast("tuple[str, bool] | None", found)


@cache
def _process() -> BoundedProcess:
    process = BoundedProcess(CHILD, CPU_SECONDS, WALL_SECONDS, "Answers cannot be compared here.")
    atexit.register(process.close)
    return process
