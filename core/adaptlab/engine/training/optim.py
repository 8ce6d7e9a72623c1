"""AdamW with a learning rate and gradient clipping per replicate."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from adaptlab.engine.kernels.fused_adamw import Constants, StepTensors, fused_step, has_kernel
from adaptlab.engine.tensors import Float, Int
from adaptlab.engine.training.allocate import Gradient, Trainables

BETAS = (0.9, 0.95)
EPSILON = 1e-8
SCALARS_AT_ONCE = 2**17
"""Scalars per block on a CPU: four float32 buffers fit in a core's second-level cache."""
GPU_AT_ONCE = 2**24
"""Likewise on a GPU, where more blocks are more kernels. Two float32 buffers take 128 MiB."""
FUSED_FROM = 2**15
"""Scalars per replicate from which torch's fused AdamW, one replicate at a time, is faster on a CPU
than arithmetic on all at once: half the time per scalar, but a fixed cost per call."""
EVERY = slice(None)


@dataclass
class AdamW:
    """AdamW (Loshchilov, Hutter 2019) on the flat buffer [R, N].

    All arithmetic is elementwise along R, so a replicate is updated as it would be alone. On a CPU
    a kernel computes it; see `fused_adamw.py`. Without it, large replicates are updated one by one
    with `torch.optim`, which has no rate per row. Small ones, and all on a GPU, where launches
    count, use the same formula on whole columns.

    On a GPU, what differs between steps is written to buffers, so that `move` can be recorded.
    """

    trainables: Trainables
    weight_decays: Float[Tensor, "R"]
    gradient_clip: float

    def __post_init__(self) -> None:
        flat = self.trainables.flat
        self._mean = torch.zeros_like(flat)
        self._square = torch.zeros_like(flat)
        self._step = 0
        self._rates = torch.zeros_like(self.weight_decays)
        self._divisors = flat.new_ones(2) if flat.is_cuda else None

    @property
    def moments(self) -> tuple[Float[Tensor, "R N"], Float[Tensor, "R N"]]:
        """The running means of the gradient and of its square."""
        return self._mean, self._square

    def of(self, trainables: Trainables, rows: Int[Tensor, "W"]) -> "AdamW":
        """Return the optimiser of some rows, with their moments."""
        kept = AdamW(trainables, self.weight_decays[rows], self.gradient_clip)
        kept.restore(self._mean[rows], self._square[rows], self._step)
        return kept

    def resume(self, mean: Float[Tensor, "R N"], square: Float[Tensor, "R N"], step: int) -> None:
        """Use these buffers as the moments after `step` steps."""
        self._mean, self._square, self._step = mean, square, step

    def restore(self, mean: Float[Tensor, "R N"], square: Float[Tensor, "R N"], step: int) -> None:
        """Resume after `step` steps that left these moments."""
        self._mean.copy_(mean)
        self._square.copy_(square)
        self._step = step

    def step(self, gradient: Float[Tensor, "R N"], learning_rates: Float[Tensor, "R"]) -> None:
        """Update every replicate; the gradient may be clipped in place."""
        self.begin(learning_rates)
        self.move(Gradient((gradient,)))

    def begin(self, learning_rates: Float[Tensor, "R"]) -> None:
        """Begin the next step, of which `move` does the rest."""
        self._step += 1
        self._rates.copy_(learning_rates)
        if self._divisors is not None:
            for divisor, value in zip(self._divisors, self._corrections(), strict=True):
                divisor.fill_(value)

    @torch.no_grad()
    def move(self, gradient: Gradient, rows: slice = EVERY) -> None:
        """Update replicates by their gradient, which may be clipped in place."""
        if has_kernel(self.trainables.flat):
            fused_step(self._moved(rows), gradient.parts, self._constants())
            return
        whole = gradient.flat
        shares = clip_shares(whole, self.gradient_clip)
        if self._is_fused():
            self._move_fused(whole.mul_(shares), rows)
        else:
            self._move_all(whole, shares, rows)

    def _moved(self, rows: slice) -> StepTensors:
        """Return some rows of what a step moves."""
        flat, mean, square, rates, decays = (
            each[rows]
            for each in (
                self.trainables.flat, self._mean, self._square, self._rates, self.weight_decays
            )
        )  # fmt: skip
        return StepTensors(flat, mean, square, self.trainables.decays, rates, decays)

    def _constants(self) -> Constants:
        return Constants(self.gradient_clip, BETAS, self._corrections(), EPSILON)

    def _corrections(self) -> tuple[float, float]:
        """Return what corrects mean and root mean square for starting at 0."""
        return 1 - BETAS[0] ** self._step, (1 - BETAS[1] ** self._step) ** 0.5

    def _is_fused(self) -> bool:
        flat = self.trainables.flat
        return flat.device.type == "cpu" and flat.shape[1] >= FUSED_FROM

    def _move_fused(self, gradient: Tensor, rows: slice) -> None:
        """Update the replicates one by one, after weight decay."""
        flat, mean, square = (of[rows] for of in (self.trainables.flat, self._mean, self._square))
        buffers = (flat, gradient, mean, square)
        rates, decays = self._rates[rows].tolist(), self.weight_decays[rows].tolist()
        for row, (rate, decay) in enumerate(zip(rates, decays, strict=True)):
            weights, gradients, means, squares = ([buffer[row]] for buffer in buffers)
            weights[0].addcmul_(weights[0], self.trainables.decays, value=-rate * decay)
            steps = [torch.tensor(float(self._step - 1))]  # the call adds one
            adamw(
                weights, gradients, means, squares, [], steps,
                fused=True, amsgrad=False, maximize=False,
                beta1=BETAS[0], beta2=BETAS[1], lr=rate, weight_decay=0.0, eps=EPSILON,
            )  # fmt: skip

    def _move_all(self, gradient: Tensor, shares: Tensor, rows: slice) -> None:
        """Update these rows together, block by block.

        `shares`, which clip, are [W, 1].
        """
        rates = self._rates[rows].unsqueeze(1)  # W, 1
        decays = rates * self.weight_decays[rows].unsqueeze(1)
        width = self._block_width(len(gradient))
        for first in range(0, gradient.shape[1], width):
            block = slice(first, first + width)
            gradient[:, block].mul_(shares)
            self._move((rows, block), gradient[:, block], rates, decays)

    def _move(
        self, place: tuple[slice, slice], gradient: Tensor, rates: Tensor, decays: Tensor
    ) -> None:
        """Update the scalars [W, B] of a block; rates and decays are [W, 1]."""
        mean, square, flat = (
            each[place] for each in (self._mean, self._square, self.trainables.flat)
        )
        of_mean, of_root = self._corrections() if self._divisors is None else self._divisors
        mean.lerp_(gradient, 1 - BETAS[0])
        square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        flat.mul_(1 - decays * self.trainables.decays[place[1]])
        denominator = square.sqrt().div_(of_root).add_(EPSILON)
        flat.sub_(mean.div(denominator).mul_(rates / of_mean))

    def _block_width(self, replicates: int) -> int:
        """Return the columns per block, which bound the memory of its buffers."""
        scalars = self.trainables.flat.shape[1]
        at_once = GPU_AT_ONCE if self.trainables.flat.is_cuda else SCALARS_AT_ONCE
        return max(1, min(scalars, at_once // replicates))


def clip_shares(gradient: Float[Tensor, "R N"], clip: float) -> Float[Tensor, "R 1"]:
    """Return the share of each gradient that clipping by its norm leaves."""
    norms = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    return (clip / (norms + 1e-6)).clamp_(max=1.0)


def schedule_factor(step: int, steps: int, warmup_fraction: float, schedule: str) -> float:
    """Return the share of the peak learning rate at `step`, from 0.

    The warm-up is linear; `schedule` is constant or cosine.
    """
    warmup = int(steps * warmup_fraction)
    if step < warmup:
        return (step + 1) / warmup
    if schedule == "constant":
        return 1.0
    done = (step - warmup) / max(1, steps - warmup)
    return 0.5 * (1.0 + math.cos(math.pi * done))
