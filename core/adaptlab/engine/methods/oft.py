"""OFT: blocks of the inputs of matrices, turned by Cayley transforms."""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.attachments import Attachments, InputHook
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.oft import Oft
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("oft")
def attach(method: Oft, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Turn the inputs of every chosen site."""
    assert isinstance(method.block, int)
    names, size = (site.name for site in method.chosen_sites(shape)), method.block
    return Attachments(inputs={name: _turned(tensors[f"{name}.skew"], size) for name in names})


def rotations(skew: Tensor, size: int) -> Tensor:
    """Return the rotations [..., size, size] of upper triangles [..., s].

    C = (1 − Q)(1 + Q)⁻¹ with the upper triangle of Q row by row.
    """
    rows, columns = torch.triu_indices(size, size, 1, device=skew.device)
    upper = skew.new_zeros(*skew.shape[:-1], size, size)
    upper[..., rows, columns] = skew
    q = upper - upper.transpose(-1, -2)
    one = torch.eye(size, dtype=skew.dtype, device=skew.device)
    return torch.linalg.solve(one + q, one - q, left=False)


def _turned(skew: Tensor, size: int) -> InputHook:
    """Return the hook of triangles [R, n, s]."""

    def turned(x: Tensor) -> Tensor:
        exact = skew if skew.dtype == torch.float64 else skew.float()
        c = rotations(exact, size).to(x.dtype)  # R, n, b, b
        replicates, blocks = c.shape[:2]
        own = grouped.lifted(x, replicates)
        whole = own[..., : blocks * size].reshape(replicates, -1, blocks, size)
        product = torch.einsum("rpnk,rnkc->rpnc", whole, c)
        product = product.reshape(*own.shape[:-1], blocks * size)
        return torch.cat([product, own[..., blocks * size :]], -1)

    return turned
