"""Common part of the methods that search for tokens."""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from adaptlab.errors import Problem
from adaptlab.plugins.learned_positions import EMBEDDING, ContextPositions
from adaptlab.plugins.shapes import Initialiser, ModelShape, TensorShape

PROMPT = "embed.prompt"


class SearchPasses(NamedTuple):
    """Forward and backward passes of a search, per replicate."""

    forward: int
    backward: int


class HardPrompt(ContextPositions, ABC):
    """Put `length` tokens of the vocabulary before the content.

    The search starts from tokens drawn per seed, without repetition while the vocabulary lasts. At
    every step the rows at the input are embeddings of tokens. A search that uses random numbers
    draws different ones per trial, so trials with equal rates are restarts.
    """

    is_search: ClassVar[bool] = True
    keeps_best: ClassVar[bool] = True
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

    def stored_bits(self, shape: ModelShape) -> int:
        """Return the bits of the tokens' numbers."""
        assert isinstance(self.length, int)
        return math.ceil(self.length * math.log2(shape.vocabulary))

    @abstractmethod
    def passes(self, steps: int, shape: ModelShape) -> SearchPasses:
        """Return the passes of a search of `steps` steps."""
