"""Training of the output head only."""

from dataclasses import replace
from typing import ClassVar, Literal

from adaptlab.plugins.method import METHODS, AttentionClaim, Method
from adaptlab.plugins.shapes import ModelShape, TensorShape


@METHODS.register("head_only")
class HeadOnly(Method):
    """Train a copy of the matrix that maps the last hidden states to logits.

    A head that is tied to the embedding is untied: its copy is trained, and the embedding is not.
    Where a task trains a head for classes, that head is all that is trained.
    """

    title: ClassVar[str] = "Head only"
    place: ClassVar[int] = 4
    summary: ClassVar[str] = "Only the output head is trained: a linear probe of the last layer."
    formula: ClassVar[str] = "W_U ← W_U + ΔW_U"
    reference: ClassVar[str] = "Alain, Bengio (ICLR workshop 2017)"
    first_layer_attention: ClassVar[AttentionClaim] = "cannot_change"
    default_learning_rate: ClassVar[float] = 1e-2
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1e-1)
    nearest_in_peft: ClassVar[str] = "lora with `sites: [unembed]`"

    name: Literal["head_only"] = "head_only"

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        copies = shape.copies("weight", "bias")
        head = {name: tensor for name, tensor in copies.items() if name.startswith("unembed.")}
        tied = {name: copies[source] for name, source in shape.tied.items()}
        return head | {name: replace(tensor, decays=True) for name, tensor in tied.items()}
