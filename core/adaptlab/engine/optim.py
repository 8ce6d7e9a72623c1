"""AdamW with a learning rate and a clipping norm for every replicate."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from adaptlab.engine.allocate import Trainables

BETAS = (0.9, 0.95)
EPSILON = 1e-8
SCALARS_AT_ONCE = 2**17
"""On a CPU: four buffers of so many float32 numbers fit in a core's second-level cache."""
FUSED_FROM = 2**15
"""Scalars of a replicate from which on a CPU torch's fused AdamW, one replicate after the other,
is faster than arithmetic on all at once: it takes half the time a scalar, but each call costs."""


@dataclass
class AdamW:
    """Decoupled weight decay [R] (Loshchilov, Hutter 2019) on the flat buffer [R, N].

    All arithmetic is elementwise along R, so a replicate moves as it would alone. Large ones on a
    CPU go through `torch.optim`, which has no rates by row; the others, and all on a GPU, where
    launches count, through the same formula on whole columns.
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

    def of(self, trainables: Trainables, rows: Tensor) -> "AdamW":
        """The optimiser of `trainables`, which are these rows of its own, from where it stands."""
        kept = AdamW(trainables, self.weight_decays[rows], self.gradient_clip)
        kept.restore(self._mean[rows], self._square[rows], self._step)
        return kept

    def restore(self, mean: Tensor, square: Tensor, step: int) -> None:
        """Go on after `step` steps that left these moments."""
        self._mean.copy_(mean)
        self._square.copy_(square)
        self._step = step

    @torch.no_grad()
    def step(self, gradient: Tensor, learning_rates: Tensor) -> None:
        """Move every replicate by its rate [R]; clips the gradient [R, N] in place."""
        self._step += 1
        norms = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)  # R, 1
        shares = (self.gradient_clip / (norms + 1e-6)).clamp_(max=1.0)
        if self._is_fused():
            self._move_fused(gradient.mul_(shares), learning_rates)
        else:
            self._move_all(gradient, shares, learning_rates.unsqueeze(1))

    def _is_fused(self) -> bool:
        flat = self.trainables.flat
        return flat.device.type == "cpu" and flat.shape[1] >= FUSED_FROM

    def _move_fused(self, gradient: Tensor, learning_rates: Tensor) -> None:
        """Move the replicates one by one, after what decays has decayed."""
        buffers = (self.trainables.flat, gradient, self._mean, self._square)
        rates, decays = learning_rates.tolist(), self.weight_decays.tolist()
        for row, (rate, decay) in enumerate(zip(rates, decays, strict=True)):
            flat, given, mean, square = ([buffer[row]] for buffer in buffers)
            flat[0].addcmul_(flat[0], self.trainables.decays, value=-rate * decay)
            taken = [torch.tensor(float(self._step - 1))]  # the call counts on
            adamw(
                flat, given, mean, square, [], taken, fused=True, amsgrad=False, maximize=False,
                beta1=BETAS[0], beta2=BETAS[1], lr=rate, weight_decay=0.0, eps=EPSILON,
            )  # fmt: skip

    def _move_all(self, gradient: Tensor, shares: Tensor, rates: Tensor) -> None:
        """Move all replicates by rates [R, 1], columns by columns; clips by shares [R, 1]."""
        decays = rates * self.weight_decays.unsqueeze(1)  # R, 1
        width = self._block_width()
        for first in range(0, gradient.shape[1], width):
            block = slice(first, first + width)
            gradient[:, block].mul_(shares)
            self._move(block, gradient[:, block], rates, decays)

    def _move(self, block: slice, gradient: Tensor, rates: Tensor, decays: Tensor) -> None:
        """Move the scalars [R, W] of a block by rates and decays [R, 1]."""
        mean, square, flat = (
            each[:, block] for each in (self._mean, self._square, self.trainables.flat)
        )
        mean.lerp_(gradient, 1 - BETAS[0])
        square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        flat.mul_(1 - decays * self.trainables.decays[block])
        denominator = square.sqrt().div_((1 - BETAS[1] ** self._step) ** 0.5).add_(EPSILON)
        flat.sub_(mean.div(denominator).mul_(rates / (1 - BETAS[0] ** self._step)))

    def _block_width(self) -> int:
        """How many columns to move at a time: all on a GPU, what a CPU's cache holds otherwise."""
        replicates, scalars = self.trainables.flat.shape
        whole = self.trainables.flat.is_cuda or not scalars
        return max(1, scalars) if whole else max(1, SCALARS_AT_ONCE // replicates)


def schedule_factor(step: int, steps: int, warmup_fraction: float, schedule: str) -> float:
    """The share of the peak rate at `step` (from 0): linear warm-up, then constant or cosine."""
    warmup = int(steps * warmup_fraction)
    if step < warmup:
        return (step + 1) / warmup
    if schedule == "constant":
        return 1.0
    done = (step - warmup) / max(1, steps - warmup)
    return 0.5 * (1.0 + math.cos(math.pi * done))
