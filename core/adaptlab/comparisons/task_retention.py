"""Retention of an old task, and drift on texts, as answers."""

from adaptlab.figures import percent
from adaptlab.plugins.metric import metric_named
from adaptlab.specs.spec import Mode
from adaptlab.values import Value

LEVEL = 0.95
ROUTED = (
    "The adaptation is routed: requests of this task meet the base alone, whatever the method. Set "
    "`evaluation.mode` to always_on to measure retention."
)
WHOLE_TEXTS = (
    "Whole texts have no right answers, of which a share could be retained. Compare their bits per "
    "byte."
)
REVERSIBLE = {
    True: "Reversible: detached, all outcomes are those of the base's own job, item by item.",
    False: (
        "Detached, outcomes differ from those of the base's own job. Compare the machines and "
        "versions of both jobs."
    ),
}
BIT_FOR_BIT = "So are the log-likelihoods of right answers: their mean is equal to the last bit."


class TaskRetention(Value):
    """The retention of one old task: (attached - floor) / (base - floor).

    `mean` is over `seeds`, in whose order `by_seed` has that of each; 1 keeps the whole skill, 0
    none, and more than 1 is better than before. `low` and `high` limit that of a typical seed on
    new items. `base` is the mean accuracy of the base models alone, on the same `items`. If the
    task has a bounded `metric` whose highest value is the best, all are values of it; `note` says
    why another metric is not used. All are None, and `reason` says why, if a base does not clear
    its floor by a margin: then nothing can be retained or lost. The same holds of an adaptation
    that is `routed`. `reversible` is whether the detached outcomes are those of the base's own job,
    item by item; None if it has none. `loss_change` is how far the mean loss of the right answers
    then is from that job's, in nats per token, of the seed that is furthest: 0 is equal bit for
    bit. It is None if both scored other items, or if a task chooses among labels, whose losses are
    not kept.
    """

    task: dict[str, object]
    base: float
    floor: float
    items: int
    level: float = LEVEL
    seeds: tuple[int, ...] = ()
    by_seed: tuple[float, ...] = ()
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    mode: Mode = "always_on"
    metric: str | None = None
    note: str | None = None
    reversible: bool | None = None
    loss_change: float | None = None

    @property
    def remark(self) -> str | None:
        """The reason if it was not measured, and whether it is reversible."""
        undone = None if self.reversible is None else REVERSIBLE[self.reversible]
        texts = self._in_metric, self.reason, self.note, undone, self._likelihoods
        return " ".join(text for text in texts if text) or None

    @property
    def _in_metric(self) -> str | None:
        """The metric of the figures, None if they are of right answers."""
        if self.mode == "routed" or (metric := metric_named(self.metric)) is None:
            return None
        base, floor = metric.figure(self.base), metric.figure(self.floor)
        return f"Retention of {metric.in_sentence}: the base has {base}, and the floor is {floor}."

    @property
    def _likelihoods(self) -> str | None:
        """The comparison of log-likelihoods, None if outcomes differ already."""
        if not self.reversible or self.loss_change is None:
            return None
        if self.loss_change == 0:
            return BIT_FOR_BIT
        return (
            f"The mean log-likelihood of the right answers differs by {self.loss_change:.1g} nats "
            "per token: batches of another size round otherwise."
        )

    @property
    def figure(self) -> str:
        """The retention with its limits as text, or that it was not measured."""
        if self.mode == "routed":
            return "zero forgetting by routing"
        if self.mean is None or self.low is None or self.high is None:
            return "not measured"
        low, high = (round(100 * end) for end in (self.low, self.high))
        return f"{percent(self.mean)} ({low} to {high} %)"


class TextDrift(Value):
    """How far adapted models are from their base on neutral texts.

    `kl` is KL(base || adapted) in nats per token, `bits_base` the base's bits per byte of text and
    `bits_change` what the adaptation adds to them, each the mean over `seeds`. Limits are those of
    a typical seed on new `clusters` of passages.
    """

    task: dict[str, object]
    kl: float
    kl_low: float
    kl_high: float
    bits_base: float
    bits_change: float
    bits_change_low: float
    bits_change_high: float
    seeds: tuple[int, ...]
    kl_by_seed: tuple[float, ...]
    bits_by_seed: tuple[float, ...]
    passages: int
    clusters: int
    bytes: int
    level: float = LEVEL

    @property
    def kl_figure(self) -> str:
        """The divergence with its limits as text."""
        return f"{self.kl:.3g} ({self.kl_low:.3g} to {self.kl_high:.3g})"

    @property
    def bits_figure(self) -> str:
        """The change of bits per byte with its limits as text."""
        low, high = self.bits_change_low, self.bits_change_high
        return f"{self.bits_change:+.3f} ({low:+.3f} to {high:+.3f})"
