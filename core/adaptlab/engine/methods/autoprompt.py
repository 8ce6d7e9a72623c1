"""AutoPrompt: the best of some candidates for one slot."""

from collections.abc import Iterator

import torch
from torch import Tensor

from adaptlab.engine.plugins import ENGINE_METHODS, ENGINE_SEARCHES
from adaptlab.engine.tensors import Int
from adaptlab.engine.training.token_search import SearchStep, TokenSearch, attach
from adaptlab.methods.autoprompt import AutoPrompt

ENGINE_METHODS.register("autoprompt")(attach)


@ENGINE_SEARCHES.register("autoprompt")
class OneSlot(TokenSearch):
    """Add up gradients, then exchange one token if the loss falls.

    The sum is kept in the first of the moments.
    """

    def proposed(self, seen: SearchStep) -> Int[Tensor, "L P"] | None:
        method, total = self.plan.method, self.moments[0]
        assert isinstance(method, AutoPrompt)
        if self.steps_taken % (method.accumulation + 1) < method.accumulation:
            total += seen.gradient.flatten(1)
            return None
        tokens = self.tokens()
        rows = torch.arange(len(tokens), device=tokens.device)
        slots = self.chosen("slot", tokens.shape[1])
        gains = self.vocabulary.gains(total.view_as(seen.gradient)[rows, slots])
        total.zero_()

        def candidates() -> Iterator[Int[Tensor, "L P"]]:
            for choice in gains.topk(min(method.candidates, gains.shape[1])).indices.T:
                changed = tokens.clone()
                changed[rows, slots] = choice
                yield changed

        step = self.steps_taken
        return self.best_of(candidates(), seen.losses, lambda flat: seen.losses_of(flat, step))[0]
