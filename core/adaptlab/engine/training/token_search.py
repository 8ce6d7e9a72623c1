"""Search for the tokens of a prompt, in place of gradient descent.

The trained buffer holds the prompt's rows, which are embeddings of tokens before and after every
step. A search differs from another in how it proposes tokens and in what it accepts. Nothing mixes
replicates.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.kernels.counter import constant, normal, random_bits, stream
from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.tensors import Float, Int
from adaptlab.engine.training.allocate import Trainables
from adaptlab.engine.training.fluency import fluency_gradient
from adaptlab.plugins.hard_prompt import PROMPT, FluentPromptSearch, HardPrompt
from adaptlab.plugins.learned_positions import EMBEDDING
from adaptlab.plugins.shapes import ModelShape

Distance = Literal["angle", "euclidean"]
Losses = Callable[[Float[Tensor, "L N"], int], Float[Tensor, "L"]]
"""Computes the losses that prompts would have on the items of a step."""


def attach(method: HardPrompt, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Put the tokens' embeddings before the input."""
    return Attachments(prompt=tensors[PROMPT])


@dataclass(frozen=True)
class Vocabulary:
    """The embeddings of all tokens as blocks read them, by replicate.

    Attributes:
        tables: the embeddings of every base, as wide as a prompt's rows.
        base_of: the base of each replicate.
    """

    tables: Float[Tensor, "G V C"]
    base_of: tuple[int, ...]

    @classmethod
    def of(cls, plan: Plan, base: Mapping[str, Tensor]) -> Self:
        """Return the vocabulary of a plan's replicates; narrow rows get zeros."""
        source, width = base[EMBEDDING][:, : plan.shape.vocabulary], plan.shape.width
        scaled = plan.shape.embedding_scale * source
        tables = functional.pad(scaled, (0, width - source.shape[-1]))
        share = len(tables) // len(plan.spec.seeds) if len(tables) > 1 else 0
        seeds = (replicate // plan.trials for replicate in range(plan.replicates))
        return cls(tables, tuple(share * seed for seed in seeds))

    @property
    def width(self) -> int:
        """The width of a row."""
        return self.tables.shape[-1]

    def some(self, rows: Int[Tensor, "W"]) -> Self:
        """Return the vocabulary of some of the replicates."""
        return replace(self, base_of=tuple(self.base_of[row] for row in rows.tolist()))

    def embedded(self, tokens: Int[Tensor, "L P"]) -> Float[Tensor, "L P C"]:
        """Return the embeddings of tokens."""
        return self.tables[self._bases(tokens.device).unsqueeze(1), tokens]

    def nearest(self, rows: Float[Tensor, "L P C"], distance: Distance) -> Int[Tensor, "L P"]:
        """Return the tokens nearest to rows, the first of several."""
        tokens: list[Tensor] = []
        for base, own in zip(self.base_of, rows, strict=True):  # one table of scores at a time
            if distance == "angle":
                scores = functional.normalize(own, dim=-1) @ self._directions[base].T
            else:
                scores = own @ self.tables[base].T - self._half_squares[base]
            tokens.append(scores.argmax(-1))
        return torch.stack(tokens)

    def gains(self, gradient: Float[Tensor, "L C"]) -> Float[Tensor, "L V"]:
        """Return how much each token would lower the loss, to first order.

        It differs from the gain over the present token by a constant.
        """
        rows = zip(self.base_of, gradient, strict=True)  # no copy of a table for each
        return torch.stack([-(self.tables[base] @ own) for base, own in rows])

    @cached_property
    def _directions(self) -> Float[Tensor, "G V C"]:
        return functional.normalize(self.tables, dim=-1)

    @cached_property
    def _half_squares(self) -> Float[Tensor, "G V"]:
        return self.tables.square().sum(-1) / 2

    def _bases(self, device: torch.device) -> Int[Tensor, "L"]:
        return torch.tensor(self.base_of, device=device)


@dataclass(frozen=True)
class SearchStep:
    """What a search sees at one step.

    Attributes:
        gradient: the gradient at the rows of the present prompts.
        learning_rates: the rates of this step.
        losses: the losses of the present prompts on the items of this step.
        losses_of: computes the losses of other prompts, on the items of any step.
    """

    gradient: Float[Tensor, "L P C"]
    learning_rates: Float[Tensor, "L"]
    losses: Float[Tensor, "L"]
    losses_of: Losses


class TokenSearch(ABC):
    """A search on the flat buffer [L, N] of prompts, in place of an optimiser."""

    def __init__(self, plan: Plan, base: Mapping[str, Tensor], trainables: Trainables) -> None:
        self.plan, self.base, self.trainables = plan, base, trainables
        self.vocabulary = Vocabulary.of(plan, base)
        self.steps_taken = 0
        self.weight_decays, self.gradient_clip = plan.replicate_decays, plan.training.gradient_clip
        self._mean = torch.zeros_like(trainables.flat)
        self._square = torch.zeros_like(trainables.flat)
        self._rows = trainables.flat.clone()
        self._seeds = plan.replicate_seeds
        self._trials = torch.arange(plan.replicates, device=plan.device) % plan.trials

    @property
    def moments(self) -> tuple[Float[Tensor, "L N"], Float[Tensor, "L N"]]:
        """Two buffers that the search remembers between steps."""
        return self._mean, self._square

    @property
    def between(self) -> Float[Tensor, "L N"]:
        """Rows that need not be those of tokens, which the search remembers."""
        return self._rows

    def of(self, trainables: Trainables, rows: Int[Tensor, "W"]) -> Self:
        """Return the search of some replicates, with what it remembers."""
        kept = copy(self)
        kept.trainables, kept.vocabulary = trainables, self.vocabulary.some(rows)
        kept._mean, kept._square, kept._rows = (
            buffer[rows] for buffer in (self._mean, self._square, self._rows)
        )
        kept._seeds, kept._trials, kept.weight_decays = (
            each[rows] for each in (self._seeds, self._trials, self.weight_decays)
        )
        return kept

    def restore(
        self,
        mean: Float[Tensor, "L N"],
        square: Float[Tensor, "L N"],
        step: int,
        between: Float[Tensor, "L N"] | None = None,
    ) -> None:
        """Resume after `step` steps that left these buffers."""
        assert between is not None
        self._mean, self._square, self._rows = mean.clone(), square.clone(), between.clone()
        self.steps_taken = step

    @torch.no_grad()
    def step(
        self,
        gradient: Float[Tensor, "L N"],
        learning_rates: Float[Tensor, "L"],
        losses: Float[Tensor, "L"],
        losses_of: Losses,
    ) -> None:
        """Exchange tokens; `losses` are those of the prompts before."""
        by_slot = gradient.unflatten(1, (-1, self.vocabulary.width))
        tokens = self.proposed(SearchStep(by_slot, learning_rates, losses, losses_of))
        self.steps_taken += 1
        if tokens is not None:
            self.trainables.flat.copy_(self.vocabulary.embedded(tokens).flatten(1))

    @abstractmethod
    def proposed(self, seen: SearchStep) -> Int[Tensor, "L P"] | None:
        """Return the tokens of the next step; None if they stay."""

    def best_of(
        self,
        candidates: Iterable[Int[Tensor, "L P"]],
        lowest: Float[Tensor, "L"],
        losses_of: Callable[[Float[Tensor, "L N"]], Float[Tensor, "L"]],
    ) -> tuple[Int[Tensor, "L P"], Float[Tensor, "L"]]:
        """Return the best prompts and their losses.

        The present prompts have the losses `lowest`, and stay unless a candidate has a lower one.
        """
        best = self.tokens()
        for tokens in candidates:
            losses = losses_of(self.vocabulary.embedded(tokens).flatten(1))
            is_better = losses < lowest
            best = torch.where(is_better.unsqueeze(1), tokens, best)
            lowest = torch.where(is_better, losses, lowest)
        return best, lowest

    def with_fluency(self, gradient: Float[Tensor, "L P C"]) -> Float[Tensor, "L P C"]:
        """Return the gradient with the method's share for log-perplexity."""
        method = self.plan.method
        share = method.fluency if isinstance(method, FluentPromptSearch) else 0
        if not share:
            return gradient
        of_prompts = fluency_gradient(
            self.plan, self.base, self.prompts(), self.tokens(), self.vocabulary.base_of
        )
        return (1 - share) * gradient + share * of_prompts

    def tokens(self) -> Int[Tensor, "L P"]:
        """Return the tokens of the prompts."""
        return self.vocabulary.nearest(self.prompts(), "euclidean")

    def prompts(self) -> Float[Tensor, "L P C"]:
        """Return the rows of the prompts."""
        return self.trainables.flat.unflatten(1, (-1, self.vocabulary.width))

    def drawn(self, purpose: str, count: int) -> Float[Tensor, "L K"]:
        """Return standard normal draws of this step, of each seed and trial."""
        return normal(*self._counters(purpose, count))

    def chosen(self, purpose: str, below: int) -> Int[Tensor, "L"]:
        """Return a random number below `below` of this step for each replicate."""
        return random_bits(*self._counters(purpose, 1))[:, 0] % below

    def _counters(self, purpose: str, count: int) -> tuple[Tensor, ...]:
        device = self._seeds.device
        return (
            constant(stream(f"search/{purpose}"), device),
            self._seeds.unsqueeze(1),
            self._trials.unsqueeze(1),
            constant(self.steps_taken, device),
            torch.arange(count, device=device).unsqueeze(0),
        )
