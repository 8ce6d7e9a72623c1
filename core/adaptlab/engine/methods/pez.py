"""PEZ: rows that are projected on tokens for every pass."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.allocate import Trainables
from adaptlab.engine.attachments import Attachments
from adaptlab.engine.optim import AdamW
from adaptlab.engine.plugins import ENGINE_METHODS, ENGINE_SEARCHES
from adaptlab.engine.tensors import Float, Int
from adaptlab.engine.token_search import Losses, TokenSearch
from adaptlab.methods.pez import Pez
from adaptlab.plugins.hard_prompt import PROMPT
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("pez")
def attach(method: Pez, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Put the tokens' embeddings before the input."""
    return Attachments(prompt=tensors[PROMPT])


@ENGINE_SEARCHES.register("pez")
class ThroughProjection(TokenSearch):
    """Move rows by AdamW with the gradient at their nearest tokens."""

    def proposed(
        self,
        gradient: Float[Tensor, "L P C"],
        learning_rates: Float[Tensor, "L"],
        present: Float[Tensor, "L"],
        losses: Losses,
    ) -> Int[Tensor, "L P"]:
        method, decays = self.plan.method, self.trainables.decays
        assert isinstance(method, Pez)
        optimiser = AdamW(
            Trainables(self.between, decays, {}), self.weight_decays, self.gradient_clip
        )
        optimiser.resume(*self.moments, self.steps_taken)
        optimiser.step(gradient.flatten(1), learning_rates)
        return self.vocabulary.nearest(
            self.between.unflatten(1, (-1, gradient.shape[-1])), method.distance
        )
