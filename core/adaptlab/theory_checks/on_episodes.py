"""Common part of the checks on demonstrations of episodes."""

from abc import ABC
from typing import ClassVar

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import TheoryCheck
from adaptlab.tasks.episodes import Episodes


class OnEpisodes(TheoryCheck, ABC):
    """A check on how a base uses the demonstrations of `task`.

    First it is checked that every replicate does: accuracy is above chance, and above that with
    permuted labels. Otherwise nothing else is claimed.
    """

    needs_base: ClassVar[bool] = True
    each_replicate: ClassVar[bool] = True

    task: Episodes = Episodes()
    samples: int = Field(default=500, ge=100, le=4096)

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """Return the problem of a model that cannot read episodes in order."""
        if faults := self.task.problems():
            return tuple(Problem("/check/task", fault.code, fault.detail) for fault in faults)
        if self.task.labels != "random" or not self.task.shots:
            detail = (
                "The labels of the episodes are the subject of the check. Use `labels: random` and "
                "at least one shot."
            )
            return (Problem("/check/task", "no_random_labels", detail),)
        shape = base.shape()
        if not base.predicts_next() or "blocks.0.attn.mix" not in shape.sites:
            detail = (
                f"The check needs a decoder of this project, and this {base.name} is none. "
                "Name a base model of the family minigpt, gpt2 or llama."
            )
            return (Problem("/base_model", "no_decoder", detail),)
        needed = self.task.vocabulary(), self.task.sequence_length()
        if needed[0] > shape.vocabulary or needed[1] > shape.context:
            detail = (
                f"The episodes have {needed[0]} tokens in items of {needed[1]}, and the model "
                f"{shape.vocabulary} in a context of {shape.context}. Give the task that the base "
                "model was pretrained on."
            )
            return (Problem("/check/task", "other_task", detail),)
        return ()
