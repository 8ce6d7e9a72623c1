"""Common part of the checks on demonstrations."""

from abc import ABC
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar, Self

from pydantic import Field, ValidatorFunctionWrapHandler, field_validator

from adaptlab.errors import InvalidSpec, Problem, below
from adaptlab.methods.in_context import InContext
from adaptlab.plugins.dataset import Datasets
from adaptlab.plugins.family import Family
from adaptlab.plugins.task import AnyTask
from adaptlab.plugins.text_task import TextTask
from adaptlab.plugins.theory_check import TheoryCheck
from adaptlab.tasks.episodes import Episodes
from adaptlab.text.source import TextSource


class OnDemonstrations(TheoryCheck, ABC):
    """A check on how a base uses the demonstrations of `task`.

    The task is `episodes`, or `text_classification` with label words. On texts, the demonstrations
    are those of `in_context`, drawn for each of `demonstration_sets` seeds; each set counts as a
    replicate, with the same test items.

    First it is checked that every replicate uses demonstrations: accuracy is above chance, and
    above that with permuted labels. Otherwise nothing else is claimed.
    """

    needs_base: ClassVar[bool] = True
    each_replicate: ClassVar[bool] = True
    passes: ClassVar[int]
    """Passes of all items, without those that depend on a knob."""

    task: AnyTask = Episodes()
    samples: int = Field(default=500, ge=100, le=4096)
    in_context: InContext = InContext()
    demonstration_sets: int = Field(default=3, ge=1, le=16)

    @field_validator("task", mode="wrap")
    @classmethod
    def _place(cls, task: object, handler: ValidatorFunctionWrapHandler) -> AnyTask:
        try:
            return handler(task)
        except InvalidSpec as error:
            raise InvalidSpec(*below("/task", error.problems)) from error

    @property
    def items(self) -> int:
        """The test items that are measured, no more than the task has."""
        available = self.task.available("test")
        return self.samples if available is None else min(self.samples, available)

    @property
    def sets(self) -> int:
        """The sets of demonstrations; episodes have their own."""
        return 1 if isinstance(self.task, Episodes) else self.demonstration_sets

    @property
    def length(self) -> int:
        """The most tokens of an item with its demonstrations."""
        if isinstance(self.task, Episodes):
            return self.task.sequence_length()
        return self.in_context.extra_context_tokens() + self.task.sequence_length()

    def tokens(self, base: Family) -> int:
        """Return the tokens of all samples in all passes."""
        return self.all_passes() * self.sets * self.items * self.length

    def all_passes(self) -> int:
        """Return the passes of all items."""
        return self.passes

    def settled(self, datasets: Datasets) -> Self:
        """Return the check with its dataset, and the longest demonstration."""
        task = self.task.settled(datasets)
        return self.model_copy(update={"task": task, "in_context": self.in_context.for_task(task)})

    def with_texts(self, sources: Mapping[str, TextSource]) -> Self:
        """Return the check with the records of its task."""
        return self.model_copy(update={"task": self.task.with_texts(sources)})

    def own_tasks(self) -> tuple[AnyTask, ...]:
        """Return the task."""
        return (self.task,)

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """Return the problem of a model that cannot read the task in order."""
        if faults := self.task.problems():
            return tuple(
                Problem("/check/task" + one.pointer, one.code, one.detail) for one in faults
            )
        if not isinstance(self.task, Episodes | TextTask):
            detail = (
                f"{self.task.name} has no demonstrations with label words. Use episodes, or "
                "text_classification with label words."
            )
            return (Problem("/check/task", "no_label_words", detail),)
        shape = base.shape()
        if not base.predicts_next() or "blocks.0.attn.mix" not in shape.sites:
            detail = (
                f"The check needs a decoder of this project, and this {base.name} is none. "
                "Name a base model of the family minigpt, gpt2 or llama."
            )
            return (Problem("/base_model", "no_decoder", detail),)
        if isinstance(self.task, TextTask):
            return tuple(self._of_texts(self.task, base))
        return tuple(self._of_episodes(self.task, base))

    def _of_episodes(self, task: Episodes, base: Family) -> Iterator[Problem]:
        shape = base.shape()
        if task.labels != "random" or not task.shots:
            detail = (
                "The labels of the episodes are the subject of the check. Use `labels: random` and "
                "at least one shot."
            )
            yield Problem("/check/task", "no_random_labels", detail)
            return
        needed = task.vocabulary(), task.sequence_length()
        if needed[0] > shape.vocabulary or needed[1] > shape.context:
            detail = (
                f"The episodes have {needed[0]} tokens in items of {needed[1]}, and the model "
                f"{shape.vocabulary} in a context of {shape.context}. Give the task that the base "
                "model was pretrained on."
            )
            yield Problem("/check/task", "other_task", detail)

    def _of_texts(self, task: TextTask, base: Family) -> Iterator[Problem]:
        words = task.choices()
        if not words or task.has_own_choices() or task.compares_with_empty():
            detail = (
                "The check compares fixed label words, as they are. Use text_classification with "
                "`score: label_words`, words without fields, and no calibration."
            )
            yield Problem("/check/task", "no_label_words", detail)
            return
        if task.vocabulary() > base.shape().vocabulary:
            detail = f"The model has {base.shape().vocabulary} tokens, too few for texts."
            yield Problem("/check/task", "vocabulary_too_small", detail)
            return
        shown = self.in_context
        if shown.is_chosen_by_item() or not isinstance(shown.demonstrations, int):
            detail = (
                "The check needs the same number of demonstrations for all items. Use balanced or "
                "random ones, and give their number."
            )
            yield Problem("/check/in_context", "demonstrations_differ", detail)
            return
        for problem in shown.task_problems(task, base, base.content_length(task.sequence_length())):
            place = problem.pointer.removeprefix("/method")
            yield replace(problem, pointer=f"/check/in_context{place}")
