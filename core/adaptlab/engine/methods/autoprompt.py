"""AutoPrompt: the best of some candidates for one slot."""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptlab.engine.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS, ENGINE_SEARCHES
from adaptlab.engine.tensors import Float, Int
from adaptlab.engine.token_search import Losses, TokenSearch
from adaptlab.methods.autoprompt import AutoPrompt
from adaptlab.plugins.hard_prompt import PROMPT
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("autoprompt")
def attach(method: AutoPrompt, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Put the tokens' embeddings before the input."""
    return Attachments(prompt=tensors[PROMPT])


@ENGINE_SEARCHES.register("autoprompt")
class OneSlot(TokenSearch):
    """Add up gradients, then exchange one token if the loss falls.

    The sum is kept in the first of the moments.
    """

    def proposed(
        self,
        gradient: Float[Tensor, "L P C"],
        learning_rates: Float[Tensor, "L"],
        present: Float[Tensor, "L"],
        losses: Losses,
    ) -> Int[Tensor, "L P"] | None:
        method, total = self.plan.method, self.moments[0]
        assert isinstance(method, AutoPrompt)
        if self.steps_taken % (method.accumulation + 1) < method.accumulation:
            total += gradient.flatten(1)
            return None
        tokens = self.tokens()
        count, rows = gradient.shape[1], torch.arange(len(tokens), device=tokens.device)
        slots = self.chosen("slot", count)
        gains = self.vocabulary.gains(total.view_as(gradient)[rows, slots])
        total.zero_()
        best, lowest = tokens, present
        for candidates in gains.topk(min(method.candidates, gains.shape[1])).indices.T:
            tried = tokens.clone()
            tried[rows, slots] = candidates
            found = losses(self.vocabulary.embedded(tried).flatten(1), self.steps_taken)
            is_better = found < lowest
            best = torch.where(is_better.unsqueeze(1), tried, best)
            lowest = torch.where(is_better, found, lowest)
        return best
