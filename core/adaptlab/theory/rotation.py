"""Approximation of a rotation by shift, mixture and matrix.

Inputs x are on the unit sphere, the target outputs are R x. Points come in antipodal pairs whose
second moment is I/d exactly, so that results for the uniform distribution hold without error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.kernels.counter import normal, stream
from adaptlab.errors import AdaptlabError
from adaptlab.theory.check import Check
from adaptlab.theory.equations import ROUNDING

SHORT_OF_ROTATION = 0.01
"""The least mean squared error that a mixture must leave to count as short of the rotation."""

SEARCHED = 1e-3
"""Relative tolerance of a search against the value of a formula."""

RADII = (0.0, 0.5, 1.0, 2.0, 5.0, 1e4)
"""Lengths of the vectors μ from which the search starts."""


@dataclass(frozen=True)
class BestMixture:
    """The best α_i μ + (1 - α_i) x_i found with 0 ≤ α_i ≤ 1, and its `error`.

    `mean_alpha` is the mean α_i.
    """

    mu: Tensor
    error: float
    mean_alpha: float


def sphere_points(dimensions: int, frames: int, seed: int) -> Tensor:
    """Return axes of random frames and their negatives, [2·frames·d, d]."""
    shape = (frames, dimensions, dimensions)
    axes = torch.linalg.qr(_normal("frames", seed, shape))[0].flatten(0, 1)
    return torch.cat([axes, -axes])


def plane_rotation(dimensions: int, angles: Sequence[float], seed: int) -> Tensor:
    """Return a rotation R [d, d] by radians in random orthogonal planes."""
    if 2 * len(angles) > dimensions:
        raise AdaptlabError(
            f"{len(angles)} planes do not fit in {dimensions} dimensions; give at most "
            f"{dimensions // 2} angles."
        )
    turned = torch.eye(dimensions, dtype=torch.float64)
    for plane, angle in enumerate(torch.tensor(angles, dtype=torch.float64)):
        rows = slice(2 * plane, 2 * plane + 2)
        cosine, sine = angle.cos(), angle.sin()
        turned[rows, rows] = torch.stack([cosine, -sine, sine, cosine]).view(2, 2)
    basis = torch.linalg.qr(_normal("basis", seed, (dimensions, dimensions)))[0]
    return basis @ turned @ basis.T


def rotation_on_a_sphere(
    rotation: Tensor, points: Tensor, seed: int = 0, shortfall: float = SHORT_OF_ROTATION
) -> tuple[Check, ...]:
    """Check which updates reach R x, R = `rotation` (review of ICLR).

    `points` [N, d] are antipodal. A mixture must leave a mean squared error of `shortfall` or more.
    """
    return (
        _keeps_the_sphere(rotation, points),
        _shifts_leave_the_sphere(points, seed),
        best_shift(rotation, points),
        best_matrix(rotation, points),
        *_mixture_checks(rotation, points, seed, shortfall),
    )


def best_shift(rotation: Tensor, points: Tensor) -> Check:
    """Check the best shift of x + v ≈ R x: v = 0, error 2 (1 - tr R / d)."""
    wanted, ones = points @ rotation.T - points, torch.ones_like(points[:, :1])
    shift = torch.linalg.lstsq(ones, wanted).solution  # 1, d
    error = _mean_square(wanted - shift)
    formula = 2 * (1 - float(rotation.trace()) / len(rotation))
    return Check.at_most(
        "rotation.best-shift",
        "The best constant vector added to all points is 0 and leaves the error 2 (1 - tr R / d).",
        max(abs(error - formula), float(shift.norm())),
        ROUNDING,
        error=error,
        formula=formula,
    )


def best_matrix(rotation: Tensor, points: Tensor) -> Check:
    """Check the matrix update ΔW of (I + ΔW) x ≈ R x, and lower ranks.

    The best update of rank r leaves Σ_{k>r} σ_k² / d, with the singular values σ of R - I (Eckart,
    Young 1936): nothing from rank(R - I) on.
    """
    wanted = points @ rotation.T
    update = torch.linalg.lstsq(points, wanted - points).solution.T  # d, d
    u, sizes, v = torch.linalg.svd(update)
    errors = [
        _mean_square(wanted - points - points @ ((u[:, :r] * sizes[:r]) @ v[:r]).T)
        for r in range(len(sizes) + 1)
    ]
    squares = torch.linalg.svdvals(rotation - torch.eye(len(rotation)).to(rotation)).square()
    formula = [float(squares[r:].sum()) / len(rotation) for r in range(len(sizes) + 1)]
    return Check.at_most(
        "rotation.best-matrix",
        "A matrix update reaches the rotation exactly, with rank(R - I), and lower ranks do not.",
        max(errors[-1], *(abs(a - b) for a, b in zip(errors, formula, strict=True))),
        ROUNDING,
        error=errors[-1],
        needed_rank=int((squares.sqrt() > 1e-9).sum()),
        error_by_rank=tuple(errors),
    )


def best_mixture(rotation: Tensor, points: Tensor, seed: int = 0) -> BestMixture:
    """Search for the best μ, with the best α_i for every point.

    For a given μ the best α_i is ⟨R x - x, μ - x⟩ / ‖μ - x‖², clipped to [0, 1]. No attention can
    do better, since it cannot choose every α_i independently.
    """
    wanted = points @ rotation.T
    drawn = _normal("mixture", seed, (3, len(rotation)))
    leading = torch.linalg.svd(rotation - torch.eye(len(rotation)).to(rotation))[0][:, :1].T
    directions = torch.nn.functional.normalize(torch.cat([drawn, leading]), dim=-1)
    starts = [radius * direction for radius in RADII for direction in directions]
    ends = [_descended(start, points, wanted) for start in starts]
    mu = min(ends, key=lambda mu: _mixture_error(mu, points, wanted).item())
    alphas = _best_alphas(mu, points, wanted)
    error = _mixture_error(mu, points, wanted)
    return BestMixture(mu, float(error), float(alphas.mean()))


def far_mixture_error(rotation: Tensor) -> float:
    """Return the error of a mixture with μ = r u, r → ∞ and the best u.

    Then α_i μ is any a_i u with a_i ≥ 0. Half of all points gain, those with ⟨R x - x, u⟩ > 0, so
    the error is (Σ_k σ_k² - σ_1² / 2) / d, with the singular values σ of R - I.
    """
    squares = torch.linalg.svdvals(rotation - torch.eye(len(rotation)).to(rotation)).square()
    return float(squares.sum() - squares[0] / 2) / len(rotation)


def _mixture_checks(
    rotation: Tensor, points: Tensor, seed: int, shortfall: float
) -> tuple[Check, Check]:
    best = best_mixture(rotation, points, seed)
    far = far_mixture_error(rotation)
    centre = float(_mixture_error(torch.zeros_like(rotation[0]), points, points @ rotation.T))
    details = {
        "error": best.error,
        "far_error": far,
        "centre_error": centre,
        "length_of_mu": float(best.mu.norm()),
        "mean_alpha": best.mean_alpha,
    }
    short = Check.at_least(
        "rotation.mixture-falls-short",
        "Equation 7 cannot rotate: the best α_i μ + (1 - α_i) x_i leaves an error.",
        best.error,
        shortfall,
        **details,
    )
    search = Check.at_most(
        "rotation.mixture-search",
        "The search for the best mixture does no worse than μ far away or at the centre.",
        max(0.0, best.error - min(far, centre)),
        max(ROUNDING, SEARCHED * min(far, centre)),
        **details,
    )
    return short, search


def _keeps_the_sphere(rotation: Tensor, points: Tensor) -> Check:
    lengths = (points @ rotation.T).square().sum(-1)
    return Check.at_most(
        "rotation.keeps-the-sphere",
        "A rotation keeps points on the sphere.",
        float((lengths - 1).abs().max()),
        ROUNDING,
        points=len(points),
        dimensions=len(rotation),
    )


def _shifts_leave_the_sphere(points: Tensor, seed: int) -> Check:
    """Check that any shift takes one of two antipodal points off the sphere.

    ‖x + v‖² - 1 is ‖v‖² ± 2 x·v for the pair, so one of the two is off by ‖v‖² or more.
    """
    shifts = _normal("shifts", seed, (64, points.shape[1]))
    squares = shifts.square().sum(-1)
    off = ((points.unsqueeze(0) + shifts.unsqueeze(1)).square().sum(-1) - 1).abs().amax(1)
    return Check.at_least(
        "rotation.shifts-leave-the-sphere",
        "Any vector v ≠ 0 added to all points takes ‖x‖² of one of them away from 1 by ‖v‖².",
        float((off / squares).min()),
        1 - ROUNDING,
        shifts=len(shifts),
    )


def _best_alphas(mu: Tensor, points: Tensor, wanted: Tensor) -> Tensor:
    """Return the best α_i of every point, [N, 1]."""
    towards = mu - points
    squares = towards.square().sum(-1, keepdim=True).clamp_min(torch.finfo(mu.dtype).tiny)
    return (((wanted - points) * towards).sum(-1, keepdim=True) / squares).clamp(0, 1)


def _mixture_error(mu: Tensor, points: Tensor, wanted: Tensor) -> Tensor:
    alphas = _best_alphas(mu, points, wanted)
    return (points + alphas * (mu - points) - wanted).square().sum(-1).mean()


def _descended(start: Tensor, points: Tensor, wanted: Tensor) -> Tensor:
    """Return the vector μ at which a descent from `start` ends."""
    mu = start.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([mu], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimiser.zero_grad()
        error = _mixture_error(mu, points, wanted)
        error.backward()
        return error.item()

    optimiser.step(closure)
    return mu.detach()


def _mean_square(x: Tensor) -> float:
    """Return the mean over rows of the squared length."""
    return float(x.square().sum(-1).mean())


def _normal(name: str, seed: int, shape: tuple[int, ...]) -> Tensor:
    count = torch.arange(torch.Size(shape).numel())
    drawn = normal(torch.tensor(stream(f"theory/rotation/{name}")), torch.tensor(seed), count)
    return drawn.view(shape)
