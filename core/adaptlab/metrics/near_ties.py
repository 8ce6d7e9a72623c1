"""The share of items that hang on less than rounding."""

from typing import ClassVar

from adaptlab.plugins.metric import MeanMetric, Needs, registered

TOLERANCE = 1e-4
"""The difference of log-likelihoods, in nats, up to which batches of other sizes can differ."""


@registered
class NearTies(MeanMetric):
    """The share of items whose two best choices differ by less than 0.0001.

    What is compared are log-likelihoods in nats, divided as the task's `score` says. On another
    machine, or in batches of another size, such an item can be answered otherwise.
    """

    name: ClassVar[str] = "near_ties"
    title: ClassVar[str] = "Near ties"
    meaning: ClassVar[str] = (
        "the share of items that hang on less than 0.0001: the log-likelihoods of their two best "
        "choices differ by less, so that rounding can decide, of standard tasks with choices; "
        "lower is better"
    )
    needs: ClassVar[Needs] = "choices"
    lower_is_better: ClassVar[bool] = True
