"""A family's forward pass bound to base weights, a method and its trained tensors."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from adaptlab.engine.attachments import NOTHING_ATTACHED, Attachments
from adaptlab.engine.plan import Plan
from adaptlab.engine.plugins import ENGINE_FAMILIES, ENGINE_METHODS, PatternRecorder


@dataclass(frozen=True)
class Model:
    """R replicates of an adapted (or, in pretraining, of a plain) model.

    `base` holds the frozen tensors [G, ...], empty in pretraining; `trained` the tensors
    [R, ...] that the job trains.
    """

    plan: Plan
    base: Mapping[str, Tensor]
    trained: Mapping[str, Tensor]

    @property
    def attachments(self) -> Attachments:
        """What the method hangs onto the base."""
        method = self.plan.method
        if method is None:
            return Attachments(weights=self.trained)
        return ENGINE_METHODS.get(method.name)(method, self.plan.shape, self.trained)

    def logits(
        self, tokens: Tensor, rows: slice, recorder: PatternRecorder | None = None
    ) -> Tensor:
        """Logits [R, B, rows, V] for tokens [R, B, T], with the adaptation attached."""
        return self._forward(tokens, self.attachments, rows, recorder)

    def base_logits(
        self, tokens: Tensor, rows: slice, recorder: PatternRecorder | None = None
    ) -> Tensor:
        """Logits for the same tokens with the adaptation detached."""
        return self._forward(tokens, NOTHING_ATTACHED, rows, recorder)

    def _forward(
        self,
        tokens: Tensor,
        attachments: Attachments,
        rows: slice,
        recorder: PatternRecorder | None,
    ) -> Tensor:
        forward = ENGINE_FAMILIES.get(self.plan.family.name)
        return forward(self.plan.family, self.base, tokens, attachments, rows, recorder)
