"""Attention to label words, as a score of the answer."""

from typing import ClassVar, Literal

from adaptlab.plugins.theory_check import THEORY_CHECKS
from adaptlab.theory_checks.on_demonstrations import OnDemonstrations


@THEORY_CHECKS.register("label_attention")
class LabelAttention(OnDemonstrations):
    """Label words as anchors: attention to the label that is answered.

    The attention of the query's end to a label is summed over heads and over the demonstrations
    that have the label. AUC of a layer is the probability that the model's own answer has more of
    it than another label of the same episode. Each layer's part of the sum of AUC − ½ over all
    layers is reported, cumulated from the first one.

    Every replicate of the base is measured, after it is checked that each uses demonstrations, and
    limits are over replicates and items.
    """

    title: ClassVar[str] = "Attention to label words"
    summary: ClassVar[str] = "In deep layers, the query attends to the label that it answers."
    passes: ClassVar[int] = 4
    """Two to see whether the base uses demonstrations, one for answers and one for attention."""

    name: Literal["label_attention"] = "label_attention"
