"""Linear sites with their attachments, for all families."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models import nf4
from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.tensors import Float


def linear(
    weights: Mapping[str, Tensor], attached: Attachments, site: str, x: Float[Tensor, "A *N I"]
) -> Float[Tensor, "R *N O"]:
    """Return the output of a linear site for input x with its attachments."""
    change = attached.inputs.get(site)
    x = x if change is None else change(grouped.lifted(x, attached.replicates))
    weight, bias = weights.get(f"{site}.weight"), weights.get(f"{site}.bias")
    if weight is None:  # in four bits; specs attach no product there
        y = nf4.linear(x, nf4.Packed.at(weights, f"{site}.weight"))
        return hooked(attached, site, x, y if bias is None else grouped.add(y, bias))
    product = attached.products.get(site)
    if product is None:
        return hooked(attached, site, x, grouped.linear(x, weight, bias))
    x = grouped.lifted(x, attached.replicates)
    y = product(x, grouped.linear(x, weight, None), weight)
    return hooked(attached, site, x, y if bias is None else grouped.add(y, bias))


def hooked(
    attached: Attachments, site: str, x: Float[Tensor, "A *N I"], y: Float[Tensor, "A2 *N2 O"]
) -> Float[Tensor, "R *N2 O"]:
    """Return the output y of a site for input x with its attachments."""
    hook = attached.outputs.get(site)
    if hook is None:
        return y
    return hook(grouped.lifted(x, attached.replicates), grouped.lifted(y, attached.replicates))
