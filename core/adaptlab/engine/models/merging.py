"""Adaptations as changes of weights, where they are linear.

Nothing here knows a method: a linear site with its attachments is asked for its outputs at the
rows of the identity, at zero and at a random input.
"""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.models.sites import linear
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.engine.tensors import Float
from adaptlab.errors import NotMergeable
from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import HEAD_SITE, ModelShape, Site

ROWS_AT_ONCE = 1024
"""Rows of the identity that a site reads at once."""
MOST_DEVIATION = 1e-6
"""Of an output from that of the merged matrix, relative to its size, in float64."""
HEAD = f"{HEAD_SITE}.weight"

BaseTensor = Callable[[str], Tensor]
"""From the name of a tensor of the base to its numbers [*shape] in float64."""


def merged_tensors(
    method: Method, shape: ModelShape, base: BaseTensor, trained: Mapping[str, Tensor]
) -> Iterator[tuple[str, Float[Tensor, "..."]]]:
    """Yield the tensors of the base that an adaptation changes, in float64.

    A changed head that is tied to the embedding is yielded as a tensor of its own.

    Args:
        method: the method as it is stored.
        shape: the base model's shape.
        base: called for the tensors of changed sites.
        trained: the stored tensors [*shape] of one replicate.

    Raises:
        NotMergeable: the adaptation adds positions, or something that is not linear.
    """
    stacked = {name: tensor.double().unsqueeze(0) for name, tensor in trained.items()}
    attached = ENGINE_METHODS.get(method.name)(method, shape, stacked)
    _check(method, shape, attached)
    hooked = {*attached.inputs, *attached.products, *attached.outputs}
    for name, tensor in attached.weights.items():
        if name.rpartition(".")[0] not in hooked:
            yield name, tensor[0]
    for name in sorted(hooked):
        yield from _site(method, shape.sites[name], shape, attached, base)


def _check(method: Method, shape: ModelShape, attached: Attachments) -> None:
    """Refuse what is not at linear sites."""
    positions = (
        attached.prompt, attached.late_prompt, attached.keys_values, attached.attention_inputs,
        attached.suffixes,
    )  # fmt: skip
    if method.carries or any(p is not None and len(p) for p in positions):
        raise NotMergeable(
            f"{method.title} adds positions to what the model reads, which no weights of the model "
            "can express. Export it with `adaptlab checkpoints export`, which PEFT loads, or adapt "
            "with lora."
        )
    hooked = {*attached.inputs, *attached.products, *attached.outputs}
    inner = [n for n in hooked if n not in shape.sites or shape.sites[n].kind != "linear"]
    if attached.mixes or attached.queries or attached.label_scales or inner:
        raise NotMergeable(
            f"{method.title} computes something between the matrices of the model, so it is not a "
            "change of them. Download the checkpoint as it is, or adapt with lora, ia3 or "
            "full_finetuning."
        )
    if not hooked and not attached.weights:
        raise NotMergeable(f"{method.title} changes no weight. Export the base model instead.")


def _site(
    method: Method, site: Site, shape: ModelShape, attached: Attachments, base: BaseTensor
) -> Iterator[tuple[str, Tensor]]:
    """Yield the matrix of a site, and its bias if it has one."""
    names = [f"{site.name}.{part}" for part in ("weight", "bias")]
    weights = {n: base(n).unsqueeze(0) for n in names if n in shape.tensors or n in shape.tied}
    for name in weights:
        own = shape.tied.get(name, name) if name not in attached.weights else name
        weights[name] = attached.weights.get(own, weights[name])

    def outputs(x: Tensor) -> Tensor:  # [N, I] to [N, O]
        return linear(weights, attached, site.name, x[None, None])[0, 0]

    origin = outputs(torch.zeros(1, site.inputs, dtype=torch.float64))
    pieces = [
        outputs(rows) - origin
        for rows in torch.eye(site.inputs, dtype=torch.float64).split(ROWS_AT_ONCE)
    ]
    matrix = torch.cat(pieces).T.contiguous()
    probe = torch.randn(
        4, site.inputs, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    found = outputs(probe)
    if (found - (probe @ matrix.T + origin)).norm() > MOST_DEVIATION * found.norm():
        raise NotMergeable(
            f"{method.title} is not linear at {site.name}, so no matrix computes the same. "
            "Download the checkpoint as it is, or adapt with lora."
        )
    yield names[0], matrix
    if names[1] in weights:
        yield names[1], origin[0]
    elif origin.abs().max() > 0:
        raise NotMergeable(
            f"{method.title} adds a bias to {site.name}, and the model has none there. Adapt with "
            "lora, or download the checkpoint as it is."
        )
