"""The two ways of moving many replicates at once.

The reference is torch's optimiser for each alone.
"""

import pytest
import torch
from tests.engine.making import rounding

from adaptlab.engine.training.allocate import Trainables
from adaptlab.engine.training.optim import BETAS, EPSILON, AdamW

RATES, DECAYS, CLIP = (0.1, 0.2, 0.3), (0.0, 0.5, 1.0), 0.5


@pytest.mark.parametrize("fused_from", [1, 10**9])
def test_every_replicate_moves_as_torch_would_move_it_alone(
    monkeypatch: pytest.MonkeyPatch, fused_from: int
):
    monkeypatch.setattr("adaptlab.engine.training.optim.FUSED_FROM", fused_from)
    generator = torch.Generator().manual_seed(2)
    start, *gradients = (
        torch.randn(3, 50, dtype=torch.float64, generator=generator) for _ in range(4)
    )
    shares = (torch.arange(50) % 3 > 0).double()
    ours = AdamW(Trainables(start.clone(), shares, {}), torch.tensor(DECAYS).double(), CLIP)
    for gradient in gradients:
        ours.step(gradient.clone(), torch.tensor(RATES, dtype=torch.float64))
    for row, (rate, decay) in enumerate(zip(RATES, DECAYS, strict=True)):
        expected = _alone(start[row], [g[row] for g in gradients], shares, rate, decay)
        assert torch.allclose(ours.trainables.flat[row], expected, rtol=0, atol=1e-8)


def test_steps_go_on_from_what_was_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("adaptlab.engine.training.optim.FUSED_FROM", 1)
    generator = torch.Generator().manual_seed(3)
    start, *gradients = (torch.randn(3, 7, generator=generator) for _ in range(4))
    rates, decays, rows = torch.tensor(RATES), torch.tensor(DECAYS), torch.tensor([2, 0])
    whole = AdamW(Trainables(start.clone(), torch.ones(7), {}), decays, CLIP)
    for gradient in gradients[:2]:
        whole.step(gradient.clone(), rates)
    left = whole.of(Trainables(whole.trainables.flat[rows], torch.ones(7), {}), rows)
    whole.step(gradients[2].clone(), rates)
    left.step(gradients[2][rows], rates[rows])
    # Ten roundings a step; which scalars are computed in vectors depends on how many there are.
    expected = whole.trainables.flat[rows]
    near = rounding(expected, roundings=10 * len(gradients))
    assert torch.allclose(left.trainables.flat, expected, rtol=0, atol=near)


def _alone(
    start: torch.Tensor,
    gradients: list[torch.Tensor],
    shares: torch.Tensor,
    rate: float,
    decay: float,
) -> torch.Tensor:
    """Return one replicate after `torch.optim.AdamW`, in two groups."""
    decayed = shares == 1
    parts = [start[where].clone().requires_grad_() for where in (decayed, ~decayed)]
    optimiser = torch.optim.AdamW(
        [
            {"params": [parts[0]], "weight_decay": decay},
            {"params": [parts[1]], "weight_decay": 0.0},
        ],
        lr=rate,
        betas=BETAS,
        eps=EPSILON,
        foreach=False,
    )
    for gradient in gradients:
        parts[0].grad, parts[1].grad = gradient[decayed].clone(), gradient[~decayed].clone()
        torch.nn.utils.clip_grad_norm_(parts, CLIP)
        optimiser.step()
    found = torch.empty_like(start)
    found[decayed], found[~decayed] = (part.detach() for part in parts)
    return found
