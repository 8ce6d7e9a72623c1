"""Intruder dimensions of tuned matrices (Shuttleworth et al. 2024)."""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptlab.engine.models.merging import merged_tensors
from adaptlab.plugins.method import Method
from adaptlab.theory.observation import FrozenBase


def intruder_count(base: Tensor, tuned: Tensor, directions: int, similarity: float) -> int:
    """Return the number of intruders among the first directions of a matrix.

    They are left singular vectors whose largest absolute cosine with any left singular vector of
    `base` is below `similarity`. Both are matrices [O, I] of a site with O outputs.
    """
    before = torch.linalg.svd(base, full_matrices=False).U
    after = torch.linalg.svd(tuned, full_matrices=False).U[:, :directions]
    likeness = (before.T @ after).abs().amax(0)
    return int((likeness < similarity).sum())


def intruders_by_site(
    method: Method,
    base: FrozenBase,
    trained: Mapping[str, Tensor],
    directions: int,
    similarity: float,
) -> dict[str, int]:
    """Return the intruders of every changed matrix, by the name of its site.

    Args:
        method: the method as it is stored.
        base: the base model of the replicate, of one group.
        trained: the stored tensors [*shape] of the replicate.
        directions: the first singular vectors of a tuned matrix that are looked at.
        similarity: the cosine from which two vectors are alike.

    Raises:
        NotMergeable: the adaptation is no change of matrices.
    """
    shape = base.family.shape()

    def of_base(name: str) -> Tensor:
        return base.weights[shape.tied.get(name, name)][0]

    matrices = {f"{name}.weight": name for name, s in shape.sites.items() if s.kind == "linear"}
    return {
        matrices[name]: intruder_count(of_base(name), tuned, directions, similarity)
        for name, tuned in merged_tensors(method, shape, of_base, trained)
        if name in matrices
    }
