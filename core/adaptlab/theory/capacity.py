"""How many completions one first token can start: a hard one of the vocabulary, or a soft one.

Paper, section 3: a model of V tokens has at most V completions of a single hard first token; a
soft first token, any vector, may have many more. What is counted here is a lower bound: the
different greedy completions that a search found.
"""

from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.attachments import NOTHING_ATTACHED
from adaptlab.engine.counter import normal, random_bits, stream
from adaptlab.engine.model import Model
from adaptlab.errors import AdaptlabError
from adaptlab.theory.check import Check
from adaptlab.theory.generation import Base, completions, distinct
from adaptlab.values import Value

Count = Annotated[int, Field(ge=0)]
Search = Literal["hard", "random", "directed"]
AT_ONCE = 1024
LOGITS_AT_ONCE = 2**24
SCALES = (0.5, 1.0, 2.0, 4.0, 8.0)
RATE = 0.1
"""Of the descent, in units of the embeddings' spread."""


class Found(Value):
    """What one search found: so many first tokens `tried` gave so many `distinct` completions.

    `hard` tries every token of the vocabulary; `random` draws vectors from normal laws with the
    mean and spread of the embeddings, at several scales; `directed` descends from random vectors
    towards random completions, by Adam on the cross-entropy, and counts what comes out.
    """

    search: Search
    tried: Count
    distinct: Count


class Capacity(Value):
    """Distinct completions of `length` tokens from one first token, hard or soft.

    `soft` is the number over both soft searches together, without the hard tokens, which are soft
    ones too: a lower bound of what soft tokens can do, as none of them were tried.
    """

    length: Annotated[int, Field(ge=1)]
    vocabulary: Count
    hard: Found
    searches: tuple[Found, ...]
    soft: Count

    @property
    def check(self) -> Check:
        """Section 3's claim; where it fails, the search was too short or the model too simple."""
        return Check.at_least(
            "capacity-of-a-soft-first-token",
            "Section 3: one soft first token has more completions than one hard first token.",
            self.soft,
            self.hard.distinct + 1,
            vocabulary=self.vocabulary,
            completion_length=self.length,
            hard=self.hard.distinct,
            **{found.search: found.distinct for found in self.searches},
            **{f"{found.search}_tried": found.tried for found in self.searches},
        )


def capacity(
    model: Model | Base,
    length: int = 10,
    soft_tokens: int = 4096,
    directed_tokens: int = 256,
    steps: int = 100,
    seed: int = 0,
) -> Capacity:
    """Count the completions of `length` tokens of the first replicate of a base model.

    `soft_tokens` random vectors are tried, and `directed_tokens` trained for so many steps.
    Nothing but a model's own pads stands before the first token, whose vector takes the place of
    an embedding. The hard tokens are all those of the vocabulary.
    Raises `AdaptlabError` for a model that fills answers in, which completes nothing, and for
    completions longer than the context.
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


def completions_of_vectors(model: Model | Base, vectors: Tensor, length: int) -> Tensor:
    """The greedy completions [K, length] of soft first tokens, vectors [K, d] of an embedding."""
    return _completed(_first(model), vectors, length)


def _first(model: Model | Base) -> Base:
    base = model if isinstance(model, Base) else Base.of(model)
    return replace(base, weights={name: tensor[:1] for name, tensor in base.weights.items()})


def _found(search: Search, sequences: Tensor) -> Found:
    return Found(search=search, tried=len(sequences), distinct=distinct(sequences))


def _completed(base: Base, vectors: Tensor, length: int) -> Tensor:
    parts = [completions(*_with_vectors(base, part), length)[0] for part in vectors.split(AT_ONCE)]
    return torch.cat(parts) if parts else torch.zeros(0, length, dtype=torch.int64)


def _with_vectors(base: Base, vectors: Tensor) -> tuple[Base, Tensor]:
    """The model with vectors [K, d] as further tokens, and each of those alone as [1, K, 1].

    They are tokens at the input only: the output has the vocabulary that it had.
    """
    table = base.weights["embed.weight"]
    rows = torch.cat([table, vectors.to(table).unsqueeze(0)], 1)
    weights = {"unembed.weight": table, **base.weights, "embed.weight": rows}
    tokens = torch.arange(table.shape[1], rows.shape[1], device=table.device)
    return replace(base, weights=weights), tokens.view(1, -1, 1)


def _random_vectors(embedding: Tensor, count: int, seed: int) -> Tensor:
    """Vectors [K, d] around the mean embedding, at each of the `SCALES` of its spread in turn."""
    counters = _counters("soft tokens", seed, count, embedding.shape[1], embedding.device)
    scales = torch.tensor(SCALES, device=embedding.device)[torch.arange(count) % len(SCALES)]
    deviations = scales.unsqueeze(1) * _spread(embedding) * normal(*counters)
    return (embedding.double().mean(0) + deviations).to(embedding)


def _spread(embedding: Tensor) -> Tensor:
    """The standard deviation [d] of every feature over an embedding [V, d]; 1 where it is none."""
    spread = embedding.double().std(0, correction=0)
    return torch.where(spread > 0, spread, torch.ones_like(spread))


def _counters(
    name: str, seed: int, rows: int, columns: int, device: torch.device
) -> tuple[Tensor, ...]:
    kind, own = torch.tensor([stream(name), seed], device=device)
    places = torch.arange(columns, device=device)
    return kind, own, torch.arange(rows, device=device).unsqueeze(1), places


def _directed(base: Base, start: Tensor, length: int, steps: int, seed: int) -> Tensor:
    """Vectors [K, d] after descending from `start`, each towards a random completion of its own."""
    vocabulary = base.weights["embed.weight"].shape[1]
    counters = _counters("completions", seed, len(start), length, base.device)
    targets = random_bits(*counters) % vocabulary
    at_once = max(1, LOGITS_AT_ONCE // (length * vocabulary))
    parts = zip(start.split(at_once), targets.split(at_once), strict=True)
    return torch.cat([start[:0], *(_descended(base, *part, steps) for part in parts)])


def _descended(base: Base, start: Tensor, targets: Tensor, steps: int) -> Tensor:
    """Adam on the summed cross-entropy of targets [K, T]; vectors [K, d] do not meet in it."""
    vectors = start.clone().requires_grad_()
    spread = float(_spread(base.weights["embed.weight"][0]).mean())
    optimiser = torch.optim.Adam([vectors], lr=RATE * spread)
    for _ in range(steps):
        taught, first = _with_vectors(base, vectors)
        told = torch.cat([first, targets[:, :-1].unsqueeze(0)], -1)
        logits = taught.logits(told, NOTHING_ATTACHED, slice(None))[0]
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        (vectors.grad,) = torch.autograd.grad(loss, [vectors])
        optimiser.step()
    return vectors.detach()
