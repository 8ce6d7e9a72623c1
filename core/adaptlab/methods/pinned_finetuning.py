"""Control: fine-tuning that cannot change attention in the first layer."""

from dataclasses import replace
from typing import ClassVar, Literal

from adaptlab.errors import Problem
from adaptlab.plugins.method import METHODS, AttentionClaim, LearningRates, Method, MethodGroup
from adaptlab.plugins.shapes import ModelShape, TensorShape


@METHODS.register("pinned_finetuning")
class PinnedFinetuning(Method):
    """Train all base weights that do not affect attention in the first layer.

    The embeddings, the norm before the first attention, and its queries and keys are frozen. Its
    values and output, its MLP, all later layers and the head are trained. A head that is tied to
    the embedding is untied.

    It is a control for explanations by attention. If it learns a task, the task needs no new
    pattern in the first layer, so failures of other methods have another cause.
    """

    title: ClassVar[str] = "Fine-tuning with pinned attention"
    group: ClassVar[MethodGroup] = "controls"
    place: ClassVar[int] = 4
    summary: ClassVar[str] = "Every weight is trained except those that decide the first attention."
    formula: ClassVar[str] = "W ← W + ΔW, except embeddings, norm, W_Q and W_K of the first layer"
    reference: ClassVar[str] = "control for Petrov, Torr, Bibi (ICLR 2024), equation 6"
    first_layer_attention: ClassVar[AttentionClaim] = "cannot_change"
    default_learning_rate: ClassVar[float] = 2e-3
    learning_rate_range: ClassVar[tuple[float, float]] = (3e-5, 3e-2)
    large_base_rates: ClassVar[LearningRates | None] = LearningRates(5e-5, (3e-6, 1e-3))
    default_weight_decay: ClassVar[float] = 0.1
    is_reference: ClassVar[bool] = True
    is_attention_control: ClassVar[bool] = True

    name: Literal["pinned_finetuning"] = "pinned_finetuning"

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        copies = shape.copies("weight", "bias", "norm_scale", "norm_shift")
        untied = {
            name: replace(copies[source], decays=True)
            for name, source in shape.tied.items()
            if source in shape.first_attention
        }
        free = {n: tensor for n, tensor in copies.items() if n not in shape.first_attention}
        return free | untied

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        if shape.first_attention:
            return ()
        return (
            Problem(
                pointer="/method/name",
                code="no_attention",
                detail=(
                    f"This {shape.family} has no attention to pin. Use full_finetuning, which "
                    "trains the same weights."
                ),
                nearest=("full_finetuning",),
            ),
        )
