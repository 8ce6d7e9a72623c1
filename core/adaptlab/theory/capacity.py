"""The number of completions that one hard or soft first token can start.

Paper, section 3: a model of V tokens has at most V completions of a single hard first token; a
soft first token, any vector, may have many more. The count here is a lower bound: the distinct
greedy completions that a search found.
"""

from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.kernels.counter import normal, random_bits, stream
from adaptlab.engine.models.attachments import NOTHING_ATTACHED
from adaptlab.engine.models.model import Model
from adaptlab.errors import AdaptlabError
from adaptlab.theory.check import Check
from adaptlab.theory.generation import GeneratingBase, completions, distinct
from adaptlab.values import Value

Count = Annotated[int, Field(ge=0)]
Search = Literal["hard", "random", "directed"]
AT_ONCE = 1024
LOGITS_AT_ONCE = 2**24
SCALES = (0.5, 1.0, 2.0, 4.0, 8.0)
RATE = 0.1
"""Learning rate of the descent, in units of the embeddings' spread."""


class SearchResult(Value):
    """Result of one search: first tokens tried, and distinct completions.

    `hard` tries every token of the vocabulary; `random` draws normal vectors with the mean and
    spread of the embeddings, at several scales; `directed` descends from random vectors towards
    random completions, by Adam on the cross-entropy, and counts the completions at the end.
    """

    search: Search
    tried: Count
    distinct: Count


class Capacity(Value):
    """Distinct completions from one first token, hard or soft.

    `soft` counts both soft searches together. It is a lower bound, also because hard tokens, which
    are soft ones too, were not tried in them.
    """

    length: Annotated[int, Field(ge=1)]
    vocabulary: Count
    hard: SearchResult
    searches: tuple[SearchResult, ...]
    soft: Count

    @property
    def check(self) -> Check:
        """Section 3's claim; fails too if the search was too short."""
        return Check.at_least(
            "capacity-of-a-soft-first-token",
            "Section 3: one soft first token has more completions than one hard first token.",
            self.soft,
            self.hard.distinct + 1,
            vocabulary=self.vocabulary,
            completion_length=self.length,
            hard=self.hard.distinct,
            **{search.search: search.distinct for search in self.searches},
            **{f"{search.search}_tried": search.tried for search in self.searches},
        )


def capacity(
    model: Model | GeneratingBase,
    length: int = 10,
    soft_tokens: int = 4096,
    directed_tokens: int = 256,
    steps: int = 100,
    seed: int = 0,
) -> Capacity:
    """Count the completions of the first replicate of a base model.

    `soft_tokens` random vectors are tried, and `directed_tokens` are trained for `steps` steps.
    Only a model's own pads precede the first token, whose vector replaces an embedding. The hard
    tokens are all those of the vocabulary.

    Raises:
        AdaptlabError: if the model fills answers in and so completes nothing, or if `length`
            exceeds its context.
    """
    base = _first(model)
    if base.family.fills_in():
        raise AdaptlabError(
            f"A {base.family.name!r} model without a causal mask fills answers in and completes "
            "nothing; count the completions of a causal one."
        )
    if length > (context := base.family.shape().context):
        raise AdaptlabError(
            f"The model's context is {context} tokens, too few for completions of {length}; ask "
            f"for {context} at most."
        )
    embedding = base.weights["embed.weight"][0]
    hard = _completed(base, embedding, length)
    drawn = _random_vectors(embedding, soft_tokens, seed)
    random = _completed(base, drawn, length)
    start = _random_vectors(embedding, directed_tokens, seed + 1)
    directed = _completed(base, _directed(base, start, length, steps, seed), length)
    return Capacity(
        length=length,
        vocabulary=len(embedding),
        hard=_found("hard", hard),
        searches=(_found("random", random), _found("directed", directed)),
        soft=distinct(torch.cat([random, directed])),
    )


def completions_of_vectors(model: Model | GeneratingBase, vectors: Tensor, length: int) -> Tensor:
    """Return the greedy completions [K, length] of soft first tokens [K, d]."""
    return _completed(_first(model), vectors, length)


def _first(model: Model | GeneratingBase) -> GeneratingBase:
    base = model if isinstance(model, GeneratingBase) else GeneratingBase.of(model)
    return replace(base, weights={name: tensor[:1] for name, tensor in base.weights.items()})


def _found(search: Search, sequences: Tensor) -> SearchResult:
    return SearchResult(search=search, tried=len(sequences), distinct=distinct(sequences))


def _completed(base: GeneratingBase, vectors: Tensor, length: int) -> Tensor:
    parts = [completions(*_with_vectors(base, part), length)[0] for part in vectors.split(AT_ONCE)]
    return torch.cat(parts) if parts else torch.zeros(0, length, dtype=torch.int64)


def _with_vectors(base: GeneratingBase, vectors: Tensor) -> tuple[GeneratingBase, Tensor]:
    """Return the model with vectors [K, d] as tokens, and these [1, K, 1].

    They are tokens at the input only: the output vocabulary is unchanged.
    """
    table = base.weights["embed.weight"]
    rows = torch.cat([table, vectors.to(table).unsqueeze(0)], 1)
    weights = {"unembed.weight": table, **base.weights, "embed.weight": rows}
    tokens = torch.arange(table.shape[1], rows.shape[1], device=table.device)
    return replace(base, weights=weights), tokens.view(1, -1, 1)


def _random_vectors(embedding: Tensor, count: int, seed: int) -> Tensor:
    """Draw vectors [K, d] around the mean embedding.

    Their deviations are the `SCALES` of the embeddings' spread in turn.
    """
    counters = _counters("soft tokens", seed, count, embedding.shape[1], embedding.device)
    scales = torch.tensor(SCALES, device=embedding.device)[torch.arange(count) % len(SCALES)]
    deviations = scales.unsqueeze(1) * _spread(embedding) * normal(*counters)
    return (embedding.double().mean(0) + deviations).to(embedding)


def _spread(embedding: Tensor) -> Tensor:
    """Return the standard deviation [d] of features, 1 instead of 0."""
    spread = embedding.double().std(0, correction=0)
    return torch.where(spread > 0, spread, torch.ones_like(spread))


def _counters(
    name: str, seed: int, rows: int, columns: int, device: torch.device
) -> tuple[Tensor, ...]:
    kind, own = torch.tensor([stream(name), seed], device=device)
    places = torch.arange(columns, device=device)
    return kind, own, torch.arange(rows, device=device).unsqueeze(1), places


def _directed(base: GeneratingBase, start: Tensor, length: int, steps: int, seed: int) -> Tensor:
    """Descend from `start` [K, d], each vector to a random completion."""
    vocabulary = base.weights["embed.weight"].shape[1]
    counters = _counters("completions", seed, len(start), length, base.device)
    targets = random_bits(*counters) % vocabulary
    at_once = max(1, LOGITS_AT_ONCE // (length * vocabulary))
    parts = zip(start.split(at_once), targets.split(at_once), strict=True)
    return torch.cat([start[:0], *(_descended(base, *part, steps) for part in parts)])


def _descended(base: GeneratingBase, start: Tensor, targets: Tensor, steps: int) -> Tensor:
    """Minimise the cross-entropy of targets [K, T], per vector, by Adam."""
    vectors = start.clone().requires_grad_()
    spread = float(_spread(base.weights["embed.weight"][0]).mean())
    optimiser = torch.optim.Adam([vectors], lr=RATE * spread)
    for _ in range(steps):
        extended, first = _with_vectors(base, vectors)
        tokens = torch.cat([first, targets[:, :-1].unsqueeze(0)], -1)
        logits = extended.logits(tokens, NOTHING_ATTACHED, slice(None))[0]
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        (vectors.grad,) = torch.autograd.grad(loss, [vectors])
        optimiser.step()
    return vectors.detach()
