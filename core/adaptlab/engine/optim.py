"""AdamW with a learning rate and a clipping norm for every replicate."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.allocate import Trainables

BETAS = (0.9, 0.95)
EPSILON = 1e-8


@dataclass
class AdamW:
    """Decoupled weight decay [R] (Loshchilov, Hutter 2019) on the flat buffer [R, N].

    All arithmetic is elementwise along R, so a replicate moves as it would alone.
    """

    trainables: Trainables
    weight_decays: Tensor
    gradient_clip: float

    def __post_init__(self) -> None:
        self._mean = torch.zeros_like(self.trainables.flat)
        self._square = torch.zeros_like(self.trainables.flat)
        self._step = 0

    @property
    def moments(self) -> tuple[Tensor, Tensor]:
        """The running mean of the gradient and of its square, both [R, N]."""
        return self._mean, self._square

    def restore(self, mean: Tensor, square: Tensor, step: int) -> None:
        """Go on after `step` steps that left these moments."""
        self._mean.copy_(mean)
        self._square.copy_(square)
        self._step = step

    @torch.no_grad()
    def step(self, gradient: Tensor, learning_rates: Tensor) -> None:
        """Move every replicate by its rate [R]; clips the gradient [R, N] in place."""
        flat = self.trainables.flat
        self._step += 1
        norms = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)  # R, 1
        gradient.mul_((self.gradient_clip / (norms + 1e-6)).clamp_(max=1.0))
        self._mean.lerp_(gradient, 1 - BETAS[0])
        self._square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        rates = learning_rates.unsqueeze(1)  # R, 1
        decays = rates * self.weight_decays.unsqueeze(1)  # R, 1
        flat.mul_(1 - decays * self.trainables.decays)
        denominator = self._square.sqrt().div_((1 - BETAS[1] ** self._step) ** 0.5).add_(EPSILON)
        flat.sub_(self._mean.div(denominator).mul_(rates / (1 - BETAS[0] ** self._step)))


def schedule_factor(step: int, steps: int, warmup_fraction: float, schedule: str) -> float:
    """The share of the peak rate at `step` (from 0): linear warm-up, then constant or cosine."""
    warmup = int(steps * warmup_fraction)
    if step < warmup:
        return (step + 1) / warmup
    if schedule == "constant":
        return 1.0
    done = (step - warmup) / max(1, steps - warmup)
    return 0.5 * (1.0 + math.cos(math.pi * done))
