"""Isolation of the label words of demonstrations."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import THEORY_CHECKS, TheoryCheck
from adaptlab.tasks.episodes import Episodes

PASSES = 10
"""Two to see whether the base uses demonstrations, and eight with isolated tokens."""


@THEORY_CHECKS.register("isolation")
class Isolation(TheoryCheck):
    """Label words as anchors: what a base loses if they cannot read the text.

    On test items of `task`, the labels of the demonstrations may attend to nothing but themselves,
    in the first or in the last `layers` layers. It is counted how many answers change. Controls
    isolate as many other tokens of the demonstrations: random words, the separators before the
    labels, and the line breaks after them.

    The first layers are compared with the last ones if `layers` is at least 2: the outputs of the
    very last layer at the labels reach no answer.

    First it is checked that the base uses demonstrations: its accuracy is above chance, and above
    that with permuted labels. Otherwise nothing is claimed about labels.
    """

    title: ClassVar[str] = "Isolated label words"
    summary: ClassVar[str] = "Labels of demonstrations gather the text in the first layers."
    needs_base: ClassVar[bool] = True

    name: Literal["isolation"] = "isolation"
    task: Episodes = Episodes()
    layers: int = Field(default=1, ge=1, le=64)
    samples: int = Field(default=500, ge=100, le=4096)

    def tokens(self, base: Family) -> int:
        """Return the tokens of all samples in all passes."""
        return PASSES * self.samples * self.task.sequence_length()

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
        reads_in_order = base.predicts_tokens() and not (base.fills_in() or base.attends_to_all())
        if not reads_in_order or "blocks.0.attn.mix" not in shape.sites:
            detail = (
                f"The check isolates tokens in a decoder of this project, and this {base.name} is "
                "none. Name a base model of the family minigpt, gpt2 or llama."
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
        if 2 * self.layers > shape.layers:
            most = shape.layers // 2
            detail = (
                f"The first and the last {self.layers} of {shape.layers} layers overlap. Use "
                f"{most} or fewer."
            )
            nearest = (most,) if most else ()
            return (Problem("/check/layers", "layers_overlap", detail, nearest=nearest),)
        return ()
