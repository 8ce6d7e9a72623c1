"""What a method hangs onto the sites of a model; the forward pass knows nothing else of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

OutputHook = Callable[[Tensor, Tensor], Tensor]
"""From the input [R, ..., I] and output [R, ..., O] of a site to its new output."""

InputHook = Callable[[Tensor], Tensor]
"""From the input [R, ..., I] of a linear site to its new input."""

MixHook = Callable[[Tensor, slice], Tensor]
"""From what attention gathered [R, B, Q, C] at the given content positions to its new value."""


@dataclass(frozen=True)
class Attachments:
    """Everything a method adds, by site.

    `weights` replace base tensors ([R, ...]); `outputs` change the output of linear sites and
    sublayers, `inputs` the input of linear sites, `mixes` what attention gathered before W_O;
    `attention_inputs` are learned rows [R, P, C] that pass through the layer's norm, W_K and
    W_V; `keys_values` are learned pairs [R, P, K]; `prompt` holds virtual tokens [R, P, C].
    """

    weights: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    outputs: Mapping[str, OutputHook] = field(default_factory=dict[str, OutputHook])
    inputs: Mapping[str, InputHook] = field(default_factory=dict[str, InputHook])
    mixes: Mapping[str, MixHook] = field(default_factory=dict[str, MixHook])
    attention_inputs: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    keys_values: Mapping[str, tuple[Tensor, Tensor]] = field(
        default_factory=dict[str, tuple[Tensor, Tensor]]
    )
    prompt: Tensor | None = None


NOTHING_ATTACHED = Attachments()
