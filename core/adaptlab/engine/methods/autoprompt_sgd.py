"""Projected gradient descent on the embeddings of a prompt."""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptlab.engine.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS, ENGINE_SEARCHES
from adaptlab.engine.tensors import Float, Int
from adaptlab.engine.token_search import Losses, TokenSearch
from adaptlab.methods.autoprompt_sgd import AutoPromptSGD
from adaptlab.plugins.hard_prompt import PROMPT
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("autoprompt_sgd")
def attach(method: AutoPromptSGD, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Put the tokens' embeddings before the input."""
    return Attachments(prompt=tensors[PROMPT])


BETA_FALLS_TO = 1e-4
"""The share of the noise that is left at the last step."""


@ENGINE_SEARCHES.register("autoprompt_sgd")
class ProjectedDescent(TokenSearch):
    """Take a step along the clipped gradient, then the nearest tokens."""

    def proposed(
        self,
        gradient: Float[Tensor, "L P C"],
        learning_rates: Float[Tensor, "L"],
        present: Float[Tensor, "L"],
        losses: Losses,
    ) -> Int[Tensor, "L P"]:
        method, steps = self.plan.method, self.plan.training.steps
        assert isinstance(method, AutoPromptSGD)
        rates = learning_rates.view(-1, 1, 1)
        norms = torch.linalg.vector_norm(gradient, dim=(1, 2), keepdim=True)
        moved = self.prompts() - rates * gradient * (self.gradient_clip / (norms + 1e-6)).clamp(
            max=1
        )
        if method.noise:
            beta = method.noise * BETA_FALLS_TO ** (self.steps_taken / max(1, steps - 1))
            drawn = self.drawn("noise", gradient[0].numel()).to(moved).view_as(moved)
            moved = moved + (2 * rates * beta).sqrt() * drawn
        return self.vocabulary.nearest(moved, "euclidean")
