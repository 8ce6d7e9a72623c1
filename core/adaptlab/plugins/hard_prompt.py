"""Common part of the methods that search for tokens."""

import math
from abc import ABC
from typing import ClassVar

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.learned_positions import EMBEDDING, ContextPositions
from adaptlab.plugins.method import Passes
from adaptlab.plugins.shapes import Initialiser, ModelShape, TensorShape
from adaptlab.plugins.task import Task

PROMPT = "embed.prompt"


class HardPrompt(ContextPositions, ABC):
    """Put `length` tokens of the vocabulary before the content.

    The search starts from tokens drawn per seed, without repetition while the vocabulary lasts. At
    every step the rows at the input are embeddings of tokens. A search that uses random numbers
    draws different ones per trial, so trials with equal rates are restarts.
    """

    is_search: ClassVar[bool] = True
    keeps_best: ClassVar[bool] = True
    carries: ClassVar[bool] = True
    nearest_in_peft: ClassVar[str] = "soft_prompt with `initialisation: vocabulary`"
    restriction: ClassVar[str] = (
        "it can only choose among tokens of the vocabulary, and mixes what attention gathers with "
        "their values"
    )

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        """Return the rows at the input, which start as tokens drawn per seed."""
        assert isinstance(self.length, int)
        start = Initialiser(
            "base_rows", shape.embedding_scale, source=EMBEDDING, rows=shape.vocabulary
        )
        return {PROMPT: TensorShape((self.length, shape.width), start, decays=False)}

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        """Return the problems of the length, and of a model without tokens."""
        problems = super().problems(shape)
        if EMBEDDING in shape.tensors:
            return problems
        detail = (
            f"This {shape.family} has no embeddings of tokens, so {self.name} cannot choose among "
            "them. Use soft_prompt."
        )
        return (*problems, Problem("/method/name", "no_vocabulary", detail))

    def carried_problems(
        self, base: str, here: ModelShape, there: ModelShape, *, is_same_text: bool
    ) -> tuple[Problem, ...]:
        """Return the problems of another base model that lacks some of the tokens."""
        problems = self.problems(there)
        if problems or not is_same_text or there.vocabulary >= here.vocabulary:
            return problems
        detail = (
            f"It has {there.vocabulary:,} tokens, and {self.name} chooses among the "
            f"{here.vocabulary:,} of {base}. Use a base model with at least as many."
        )
        return (Problem("", "tokens_missing", detail),)

    def stored_bits(self, shape: ModelShape) -> int:
        """Return the bits of the tokens' numbers."""
        assert isinstance(self.length, int)
        return math.ceil(self.length * math.log2(shape.vocabulary))


class FluentPromptSearch(HardPrompt, ABC):
    """A search by gradients that can prefer prompts that read as a text.

    `fluency` is the share λ of the log-perplexity of the prompt under the base model in the
    objective; the loss of the task has the rest. It needs a model that predicts the next token.
    """

    fluency: float = Field(default=0.0, ge=0, lt=1, exclude_if=lambda share: share == 0)
    """weight of the base model's own loss on the prompt"""

    def largest_size(self, shape: ModelShape) -> int:
        """Return the longest length; a prompt is read as a text for its fluency."""
        longest = super().largest_size(shape)
        return min(longest, shape.context) if self.fluency else longest

    def search_problems(self, task: Task, family: Family) -> tuple[Problem, ...]:
        """Return the problem of a model that gives prompts no perplexity."""
        if not self.fluency or (family.predicts_next() and task.classes() is None):
            return ()
        detail = (
            "The fluency of a prompt is how well the base model predicts its tokens one after the "
            "other, which this model does not do with this task. Set fluency to 0."
        )
        return (Problem("/method/fluency", "no_perplexity", detail, nearest=(0,)),)

    def passes(self, steps: int, shape: ModelShape) -> Passes:
        """Return one pass of each kind a step, and two with fluency."""
        count = steps * (2 if self.fluency else 1)
        return Passes(count, count)
