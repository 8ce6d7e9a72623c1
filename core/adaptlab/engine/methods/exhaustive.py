"""Exhaustive search over all prompts of a length."""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptlab.engine.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS, ENGINE_SEARCHES
from adaptlab.engine.tensors import Float, Int
from adaptlab.engine.token_search import Losses, TokenSearch
from adaptlab.methods.exhaustive import Exhaustive
from adaptlab.plugins.hard_prompt import PROMPT
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("exhaustive")
def attach(method: Exhaustive, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Put the tokens' embeddings before the input."""
    return Attachments(prompt=tensors[PROMPT])


@ENGINE_SEARCHES.register("exhaustive")
class EveryPrompt(TokenSearch):
    """Compare the next prompts with the best one so far.

    All losses are on the items of the first step. The lowest is kept in the first of the moments.
    """

    def proposed(
        self,
        gradient: Float[Tensor, "L P C"],
        learning_rates: Float[Tensor, "L"],
        present: Float[Tensor, "L"],
        losses: Losses,
    ) -> Int[Tensor, "L P"]:
        method, shape, steps = self.plan.method, self.plan.shape, self.plan.training.steps
        assert isinstance(method, Exhaustive)
        lowest = self.moments[0][:, 0]
        if not self.steps_taken:
            lowest.fill_(torch.inf)
        best, every = self.tokens(), method.prompts(shape)
        first, last = (every * step // steps for step in (self.steps_taken, self.steps_taken + 1))
        for number in range(first, last):
            places = torch.arange(best.shape[1], device=best.device)
            tried = (number // shape.vocabulary**places % shape.vocabulary).expand_as(best)
            found = losses(self.vocabulary.embedded(tried).flatten(1), 0)
            is_better = found < lowest
            best = torch.where(is_better.unsqueeze(1), tried, best)
            lowest.copy_(torch.where(is_better, found, lowest))
        return best
