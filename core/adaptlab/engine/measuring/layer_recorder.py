"""A recorder of attention patterns, layer by layer."""

from dataclasses import dataclass, field

from torch import Tensor

from adaptlab.engine.tensors import Float

Patterns = list[Tensor]  # one tensor [R, B, H, T, keys] a layer


@dataclass
class LayerRecorder:
    """The patterns of every layer: whole softmax and softmax over content."""

    patterns: Patterns = field(default_factory=list[Tensor])
    relative: Patterns = field(default_factory=list[Tensor])

    def record(
        self, layer: int, pattern: Float[Tensor, "R B H T K"], relative: Float[Tensor, "R B H T T"]
    ) -> None:
        """Append the patterns of the next layer."""
        self.patterns.append(pattern)
        self.relative.append(relative)
