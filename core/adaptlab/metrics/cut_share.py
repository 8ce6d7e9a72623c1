"""The share of decoded answers that are cut by length."""

from typing import ClassVar

from adaptlab.plugins.metric import MeanMetric, Needs, registered


@registered
class CutShare(MeanMetric):
    """The share of decoded answers that end where no token is left.

    An item's statistic is that share of its samples. Many cut answers mean that the limit is too
    low, or that the model has not learned to end.
    """

    name: ClassVar[str] = "cut_share"
    title: ClassVar[str] = "Cut answers"
    meaning: ClassVar[str] = (
        "the share of decoded answers that end at the limit of tokens, where answers are decoded; "
        "lower is better"
    )
    needs: ClassVar[Needs] = "endings"
    lower_is_better: ClassVar[bool] = True
