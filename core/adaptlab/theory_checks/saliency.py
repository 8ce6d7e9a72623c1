"""Flow of saliency into and out of label words."""

from typing import ClassVar, Literal

from adaptlab.plugins.theory_check import THEORY_CHECKS
from adaptlab.theory_checks.on_demonstrations import OnDemonstrations


@THEORY_CHECKS.register("saliency")
class Saliency(OnDemonstrations):
    """Label words as anchors: where attention matters, layer by layer.

    The saliency of an attention weight is its product with the gradient of the loss over labels,
    summed over heads, as an absolute value. Means are compared per item: from the text before a
    label into it, from labels to the query's end, and between all other tokens. Each layer's three
    means are divided by their sum. In the last layer only the query's end has a gradient, so there
    labels are compared with other tokens that it reads.

    Every replicate of the base is measured, after it is checked that each uses demonstrations, and
    limits are over replicates and items.
    """

    title: ClassVar[str] = "Saliency of label words"
    summary: ClassVar[str] = "Saliency flows into labels first, and from them in the last layer."
    passes: ClassVar[int] = 5
    """Two to see whether the base uses demonstrations, and one forward and backward."""

    name: Literal["saliency"] = "saliency"
