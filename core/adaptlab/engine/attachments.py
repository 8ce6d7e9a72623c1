"""What a method hangs onto the sites of a model; the forward pass knows nothing else of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

LinearHook = Callable[[Tensor, Tensor], Tensor]
"""From the input [R, ..., I] and output [R, ..., O] of a linear site to its new output."""


@dataclass(frozen=True)
class Attachments:
    """Everything a method adds, by site.

    `weights` replace base tensors ([R, ...]); `linears` change the output of linear sites;
    `attention_inputs` are learned rows [R, P, C] that pass through the layer's norm, W_K and
    W_V; `keys_values` are learned pairs [R, P, K]; `prompt` holds virtual tokens [R, P, C].
    """

    weights: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    linears: Mapping[str, LinearHook] = field(default_factory=dict[str, LinearHook])
    attention_inputs: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    keys_values: Mapping[str, tuple[Tensor, Tensor]] = field(
        default_factory=dict[str, tuple[Tensor, Tensor]]
    )
    prompt: Tensor | None = None


NOTHING_ATTACHED = Attachments()
