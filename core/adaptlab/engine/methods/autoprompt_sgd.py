"""Projected gradient descent on the embeddings of a prompt."""

from torch import Tensor

from adaptlab.engine.plugins import ENGINE_METHODS, ENGINE_SEARCHES
from adaptlab.engine.tensors import Int
from adaptlab.engine.training.optim import clip_shares
from adaptlab.engine.training.token_search import SearchStep, TokenSearch, attach
from adaptlab.methods.autoprompt_sgd import AutoPromptSGD
from adaptlab.methods.fluentprompt import FluentPrompt

ENGINE_METHODS.register("autoprompt_sgd")(attach)


BETA_FALLS_TO = 1e-4
"""The share of the noise that is left at the last step."""


@ENGINE_SEARCHES.register("autoprompt_sgd")
class ProjectedDescent(TokenSearch):
    """Take a step along the clipped gradient, then the nearest tokens."""

    def proposed(self, seen: SearchStep) -> Int[Tensor, "L P"]:
        method, steps = self.plan.method, self.plan.training.steps
        assert isinstance(method, AutoPromptSGD | FluentPrompt)
        rates, gradient = seen.learning_rates.view(-1, 1, 1), self.with_fluency(seen.gradient)
        shares = clip_shares(gradient.flatten(1), self.gradient_clip).unsqueeze(2)
        moved = self.prompts() - rates * gradient * shares
        if method.noise:
            beta = method.noise * BETA_FALLS_TO ** (self.steps_taken / max(1, steps - 1))
            drawn = self.drawn("noise", moved[0].numel()).to(moved).view_as(moved)
            moved = moved + (2 * rates * beta).sqrt() * drawn
        return self.vocabulary.nearest(moved, "euclidean")
