"""Exhaustive search over all prompts of a length."""

import torch
from torch import Tensor

from adaptlab.engine.plugins import ENGINE_METHODS, ENGINE_SEARCHES
from adaptlab.engine.tensors import Int
from adaptlab.engine.training.token_search import SearchStep, TokenSearch, attach
from adaptlab.methods.exhaustive import Exhaustive

ENGINE_METHODS.register("exhaustive")(attach)


@ENGINE_SEARCHES.register("exhaustive")
class EveryPrompt(TokenSearch):
    """Compare the next prompts with the best one so far.

    All losses are on the items of the first step. The lowest is kept in the first of the moments.
    """

    def proposed(self, seen: SearchStep) -> Int[Tensor, "L P"]:
        method, shape, steps = self.plan.method, self.plan.shape, self.plan.training.steps
        assert isinstance(method, Exhaustive)
        lowest = self.moments[0][:, 0]
        if not self.steps_taken:
            lowest.fill_(torch.inf)
        replicates, length = seen.gradient.shape[:2]
        places = torch.arange(length, device=lowest.device)
        first, last = (
            method.prompts(shape) * step // steps
            for step in (self.steps_taken, self.steps_taken + 1)
        )
        candidates = (
            (number // shape.vocabulary**places % shape.vocabulary).expand(replicates, -1)
            for number in range(first, last)
        )
        best, losses = self.best_of(candidates, lowest, lambda flat: seen.losses_of(flat, 0))
        lowest.copy_(losses)
        return best
