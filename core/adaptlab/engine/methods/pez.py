"""PEZ: rows that are projected on tokens for every pass."""

from torch import Tensor

from adaptlab.engine.plugins import ENGINE_METHODS, ENGINE_SEARCHES
from adaptlab.engine.tensors import Int
from adaptlab.engine.training.allocate import Trainables
from adaptlab.engine.training.optim import AdamW
from adaptlab.engine.training.token_search import SearchStep, TokenSearch, attach
from adaptlab.methods.pez import Pez

ENGINE_METHODS.register("pez")(attach)


@ENGINE_SEARCHES.register("pez")
class ThroughProjection(TokenSearch):
    """Move rows by AdamW with the gradient at their nearest tokens."""

    def proposed(self, seen: SearchStep) -> Int[Tensor, "L P"]:
        method, decays = self.plan.method, self.trainables.decays
        assert isinstance(method, Pez)
        optimiser = AdamW(
            Trainables(self.between, decays, {}), self.weight_decays, self.gradient_clip
        )
        optimiser.resume(*self.moments, self.steps_taken)
        optimiser.step(self.with_fluency(seen.gradient).flatten(1), seen.learning_rates)
        return self.vocabulary.nearest(self.between.view_as(seen.gradient), method.distance)
