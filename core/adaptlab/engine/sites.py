"""What happens at a linear site, the same in every family."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine import grouped
from adaptlab.engine.attachments import Attachments


def linear(weights: Mapping[str, Tensor], attached: Attachments, site: str, x: Tensor) -> Tensor:
    """The output [R, ..., O] of a linear site for x [R, ..., I], as the method changes it."""
    change = attached.inputs.get(site)
    x = x if change is None else change(grouped.lifted(x, attached.replicates))
    weight, bias = weights[f"{site}.weight"], weights.get(f"{site}.bias")
    product = attached.products.get(site)
    if product is None:
        return hooked(attached, site, x, grouped.linear(x, weight, bias))
    x = grouped.lifted(x, attached.replicates)
    y = product(x, grouped.linear(x, weight, None), weight)
    return hooked(attached, site, x, y if bias is None else grouped.add(y, bias))


def hooked(attached: Attachments, site: str, x: Tensor, y: Tensor) -> Tensor:
    """The output y of a site for its input x, as the method changes it."""
    hook = attached.outputs.get(site)
    if hook is None:
        return y
    return hook(grouped.lifted(x, attached.replicates), grouped.lifted(y, attached.replicates))
