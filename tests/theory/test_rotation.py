"""Shifts, mixtures and matrices against closed forms and a grid."""

import math

import pytest
import torch

from adaptlab.errors import AdaptlabError
from adaptlab.theory.rotation import (
    best_matrix,
    best_mixture,
    best_shift,
    far_mixture_error,
    plane_rotation,
    rotation_on_a_sphere,
    sphere_points,
)

POINTS = sphere_points(6, 5, seed=1)


def verdicts(rotation: torch.Tensor, points: torch.Tensor) -> dict[str, str]:
    checks = rotation_on_a_sphere(rotation, points)
    return {check.name.removeprefix("rotation."): check.verdict for check in checks}


def test_points_are_as_good_as_uniform():
    assert torch.allclose(POINTS.norm(dim=-1), torch.ones(60).double())
    assert torch.allclose(POINTS.mean(0), torch.zeros(6).double(), atol=1e-15)
    assert torch.allclose(POINTS.T @ POINTS / 60, torch.eye(6).double() / 6, atol=1e-15)


def test_a_plane_rotation_turns_as_many_planes_as_asked():
    rotation = plane_rotation(6, (0.7, 2.0), seed=3)
    assert torch.allclose(rotation @ rotation.T, torch.eye(6).double(), atol=1e-14)
    assert float(torch.linalg.det(rotation)) == pytest.approx(1)
    assert float(rotation.trace()) == pytest.approx(2 + 2 * math.cos(0.7) + 2 * math.cos(2.0))
    with pytest.raises(AdaptlabError, match="at most 3 angles"):
        plane_rotation(6, (1.0,) * 4, seed=3)


def test_all_hold_for_a_rotation():
    found = verdicts(plane_rotation(6, (0.7, 2.0), seed=3), POINTS)
    assert set(found.values()) == {"holds"}
    assert len(found) == 6


@pytest.mark.parametrize("angles", [(0.3,), (0.7, 2.0), (math.pi,) * 3])
def test_errors_are_those_of_the_angles(angles: tuple[float, ...]):
    rotation = plane_rotation(6, angles, seed=3)
    shift = best_shift(rotation, POINTS)
    moved = sum(4 * (1 - math.cos(angle)) for angle in angles)  # ‖R - I‖² = Σ σ²
    assert shift.details["error"] == pytest.approx(moved / 6)
    matrix = best_matrix(rotation, POINTS)
    assert matrix.details["needed_rank"] == 2 * len(angles)
    errors = matrix.details["error_by_rank"]
    assert isinstance(errors, tuple)
    largest = max(2 * (1 - math.cos(angle)) for angle in angles)
    assert errors[0] == pytest.approx(moved / 6)
    assert errors[1] == pytest.approx((moved - largest) / 6)
    assert errors[2 * len(angles)] < 1e-25
    assert far_mixture_error(rotation) == pytest.approx((moved - largest / 2) / 6)


def test_turning_everything_round_leaves_the_best_mixture_at_the_centre():
    best = best_mixture(plane_rotation(6, (math.pi,) * 3, seed=3), POINTS)
    assert best.error == pytest.approx(1, abs=1e-9)  # for μ = 0 and every α = 1, of -x all is left
    assert best.mean_alpha == pytest.approx(1)
    assert float(best.mu.norm()) < 1e-4


def test_far_away_half_of_the_points_gain():
    rotation = plane_rotation(6, (1.0,), seed=3)
    left, sizes, _ = torch.linalg.svd(rotation - torch.eye(6).double())
    gains = (POINTS @ rotation.T - POINTS) @ left[:, 0]
    error = float(sizes.square().sum()) / 6 - sum(g * g for g in gains.tolist() if g > 0) / 60
    assert far_mixture_error(rotation) == pytest.approx(error)
    assert best_mixture(rotation, POINTS).error <= error * 1.001


def test_no_point_of_a_grid_is_better_in_the_plane():
    points, rotation = sphere_points(2, 6, seed=1), plane_rotation(2, (1.0,), seed=1)
    best = best_mixture(rotation, points)
    steps = torch.linspace(-4, 4, 81).double()
    mus = torch.cartesian_prod(steps, steps).view(-1, 1, 1, 2)
    alphas = torch.linspace(0, 1, 51).double().view(-1, 1)
    x, wanted = points.view(-1, 1, 2), (points @ rotation.T).view(-1, 1, 2)
    errors = torch.cat(
        [
            (x + alphas * (mu - x) - wanted).square().sum(-1).amin(-1).mean(-1)
            for mu in mus.split(500)
        ]
    )
    assert best.error <= float(errors.min()) + 1e-12
    assert best.error == pytest.approx(float(errors.min()), rel=0.03)


def test_the_identity_needs_no_matrix_and_nothing_falls_short():
    found = verdicts(plane_rotation(6, (), seed=3), POINTS)
    assert found["mixture-falls-short"] == "fails"
    assert found["best-shift"] == "holds"


def test_what_is_no_rotation_leaves_the_sphere():
    found = verdicts(1.1 * plane_rotation(6, (1.0,), seed=3), POINTS)
    assert found["keeps-the-sphere"] == "fails"
    assert found["best-shift"] == "fails"


def test_points_on_one_side_are_shifted_to_advantage():
    half = POINTS[POINTS[:, 0] > 0]
    found = verdicts(plane_rotation(6, (0.7, 2.0), seed=3), half)
    assert found["best-shift"] == "fails"
    assert found["best-matrix"] == "holds"  # a matrix gains nothing from where they lie


def test_points_that_favour_a_direction_are_served_better_by_a_low_rank():
    found = verdicts(plane_rotation(6, (0.7, 2.0), seed=3), POINTS[:10])
    assert found["best-matrix"] == "fails"


def test_a_shift_can_keep_a_single_point_near_the_sphere():
    found = verdicts(plane_rotation(6, (1.0,), seed=3), POINTS[:1])
    assert found["shifts-leave-the-sphere"] == "fails"
