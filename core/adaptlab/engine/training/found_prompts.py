"""The tokens that a search has found, for its report."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from adaptlab.engine.items.task_items import as_digit_task
from adaptlab.engine.models.context import Context
from adaptlab.engine.models.demonstrating import demonstrations
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.tensors import Float, Int
from adaptlab.engine.training.allocate import Trainables
from adaptlab.engine.training.fluency import next_losses
from adaptlab.engine.training.passes import of_seeds
from adaptlab.engine.training.token_search import Vocabulary
from adaptlab.runs.bounds import word_excerpt
from adaptlab.runs.events import FoundPrompt


@torch.no_grad()
def found_prompts(
    plan: Plan,
    base: Mapping[str, Float[Tensor, "G ..."]],
    trainables: Trainables,
    steps: Sequence[int],
) -> tuple[FoundPrompt | None, ...]:
    """Return the prompts of all replicates, None if there are none.

    `steps` are those that each replicate was trained for.
    """
    if isinstance(context := demonstrations(plan), Context):
        return tuple(
            _demonstrated(plan, base, seed, context)
            for seed in range(len(plan.seeds))
            for _ in range(plan.trials)
        )
    if plan.method is None or not plan.method.is_search:
        return (None,) * plan.replicates
    vocabulary = Vocabulary.of(plan, base)
    rows = trainables.flat.unflatten(1, (-1, vocabulary.width))
    tokens = vocabulary.nearest(rows, "euclidean")
    perplexities = _log_perplexities(plan, base, tokens)
    passes = [plan.method.passes(count, plan.shape) for count in steps]
    return tuple(
        FoundPrompt(
            tokens=tuple(own),
            words=_words(plan, own),
            log_perplexity=perplexity,
            forward_passes=forward,
            backward_passes=backward,
        )
        for own, perplexity, (forward, backward) in zip(
            tokens.tolist(), perplexities, passes, strict=True
        )
    )


def _demonstrated(
    plan: Plan, base: Mapping[str, Tensor], seed: int, context: Context
) -> FoundPrompt:
    """Return the demonstrations of a seed, which took no pass."""
    tokens = context.tokens[seed : seed + 1, : int(context.lengths[seed])]
    own = {name: of_seeds(tensor, [seed]) for name, tensor in base.items()}
    (perplexity,) = _log_perplexities(plan, own, tokens)
    (row,) = tokens.tolist()
    return FoundPrompt(
        tokens=tuple(row),
        words=_words(plan, row),
        log_perplexity=perplexity,
        forward_passes=0,
        backward_passes=0,
    )


def _log_perplexities(
    plan: Plan, base: Mapping[str, Tensor], tokens: Int[Tensor, "R P"]
) -> list[float | None]:
    """Return each prompt's mean loss per token under the base alone."""
    fits = 2 <= tokens.shape[1] <= plan.shape.context
    if not fits or not plan.family.predicts_next() or plan.task.classes() is not None:
        return [None] * len(tokens)
    logits = Model(plan, base, {}).base_logits(tokens.unsqueeze(1), slice(None))
    means: list[float] = next_losses(logits[:, 0], tokens).mean(1).tolist()
    return [*means]


def _words(plan: Plan, tokens: Sequence[int]) -> tuple[str, ...]:
    tokeniser = plan.task.tokeniser()
    if tokeniser is None:
        task = as_digit_task(plan.task)
        return tuple(task.written((token,)) or str(token) for token in tokens)
    return tuple(word_excerpt(tokeniser.word(token)) for token in tokens)
