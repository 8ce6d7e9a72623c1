"""A metric of a task beside the share of right items.

What is kept of it are statistics by item, from whose sums its value follows. So what the choice of
items adds to its uncertainty is known, also of metrics that are no means over items.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeVar

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from adaptlab.figures import limited_points, percent, points
from adaptlab.plugins.registry import Registry
from adaptlab.records.answer_forms import FORMS, AnswerForm
from adaptlab.records.rendered_items import has_choices, text_metrics
from adaptlab.records.text_units import TextUnit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Needs = Literal[
    "labels", "likelihood", "likelihood_of_text", "answers", "endings", "choices", "base"
]  # fmt: skip
"""What a metric is computed from: right and given labels, the loss of the right answers and their
tokens, that loss and the length of their text, decoded answers as texts, how these end, by how much
the best choice is ahead, or the base model's distribution on the same tokens. One of endings is
measured wherever answers are decoded."""
FIRST_VERSION = "1"
"""The signature of values that were stored without one."""

Counts = Sequence[Sequence[float]]
"""Items by right label, then by given label."""


class Metric(ABC):
    """A metric, with a value for one seed on the test items.

    Attributes:
        name: its name in a task's `metric`, in queries and on curves.
        title: its name in tables.
        meaning: what it is, for those who read it in a table or ask for it in a query.
        needs: what it is computed from.
        columns: the statistics of an item. Of `labels` they are the places of the right and of the
            given label, of `likelihood` the loss in nats and the counted tokens, or units of the
            text; of `answers`, what `of_references` returns; of `endings`, the share of cut
            answers; of `choices`, whether rounding can decide; of `base`, divergence, loss, tokens
            and bytes.
        limits: the least and the largest value. Those of a share are 0 and 1.
        lower_is_better: true if the lowest value is the best.
        learnable_from: the part of the way from the floor to the best value from which the best
            method has learned a task. It is small, because few texts allow a perfect value.
        step: the unit of a margin between two methods.
        axis_unit: the unit of differences in charts.
        axis_factor: the factor from the scale of tests to that unit.
        version: it changes with every change of the values.
        text_unit: that of the text's length, of metrics that need the likelihood of text.
        reads: the form that right answers must have; another is refused with the job.
        reads_schema: true if answers can be checked by a JSON Schema.
        counts_no_answer: true if the empty answer can be the right one.
        compares_bases: true if values on models with other tokenisers answer the same question.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    meaning: ClassVar[str]
    needs: ClassVar[Needs]
    columns: ClassVar[int]
    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)
    lower_is_better: ClassVar[bool] = False
    learnable_from: ClassVar[float] = 0.1
    step: ClassVar[str] = "points"
    axis_unit: ClassVar[str] = "points"
    axis_factor: ClassVar[float] = 100.0
    version: ClassVar[str] = FIRST_VERSION
    text_unit: ClassVar[TextUnit] = "bytes"
    reads: ClassVar[AnswerForm | None] = None
    reads_schema: ClassVar[bool] = False
    counts_no_answer: ClassVar[bool] = False
    compares_bases: ClassVar[bool] = False

    @abstractmethod
    def of_sums(self, sums: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return the values of sums of statistics, [..., column] to [...]."""

    def of_answer(self, given: str, right: str) -> tuple[float, ...]:
        """Return the statistics of a given answer, if the metric needs answers."""
        raise NotImplementedError(f"{self.name} does not compare answers.")

    def of_references(self, given: str, references: Sequence[str]) -> tuple[float, ...]:
        """Return the statistics of a given answer, of which several can be right.

        By default they are those by the right answer that gives the best value, as in Rajpurkar et
        al. (EMNLP 2016), section 6.1.
        """
        first, *others = (self.of_answer(given, right) for right in references)
        return max((first, *others), key=self._rank) if others else first

    def _rank(self, statistics: tuple[float, ...]) -> tuple[float, ...]:
        import numpy as np

        return (self._on_scale(self.value(np.array([statistics]))),)

    def reads_answer(self, right: str) -> bool:
        """Return True if a right answer has the form that the metric reads."""
        if self.needs == "answers" and not self.counts_no_answer and not right.strip():
            return False
        return self.reads is None or FORMS[self.reads].has(right)

    @property
    def needs_loss(self) -> bool:
        """True if it is computed from the loss of the right answers."""
        return self.needs in ("likelihood", "likelihood_of_text")

    @property
    def wanted(self) -> str:
        """The form of right answers, after "must"."""
        return "be texts" if self.reads is None else FORMS[self.reads].wanted

    def unread(self, answers: str) -> str:
        """Return the error about right answers of another form, in these words."""
        return (
            f"{self.title} cannot read {answers}. Right answers must {self.wanted}. Change such "
            "answers, leave their records out, or use another metric."
        )

    def signature(self) -> str:
        """Return the version, and that of a library that computes statistics.

        Values with different signatures are not compared.
        """
        return self.version

    def with_schema(self, schema: str) -> "Metric":
        """Return the metric of answers that should fit a JSON Schema."""
        raise NotImplementedError(f"{self.name} has no schema.")

    def of_several(self) -> "Metric":
        """Return the metric of items of which several answers can be right."""
        return self

    def caution(self, statistics: "NDArray[np.float64]") -> str | None:
        """Return what to know before reading a value, None if there is nothing.

        `statistics` are those of the items of one seed or more, [item, column].
        """
        return None

    def summed(self, statistics: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return what is summed of items' statistics, [item, column].

        By default it is the statistics themselves.
        """
        return statistics

    def without(
        self, total: "NDArray[np.float64]", parts: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        """Return the values without each part of the items.

        Shapes are [column], and [part, column] to [part].
        """
        return self.of_sums(total - parts)

    def value(self, statistics: "NDArray[np.float64]") -> float:
        """Return the value of some items' statistics, [item, column]."""
        return float(self.of_sums(self.summed(statistics).sum(axis=0)))

    def of_earlier(
        self, task: Mapping[str, object], confusion: Counts | None, loss: float | None
    ) -> float | None:
        """Return the value from what else is kept, None if it is not known.

        It is that of results of earlier versions, and of tasks with another metric.

        Args:
            task: the configuration of the scored task.
            confusion: the items by right and given label, of a task that chooses among few.
            loss: the mean loss of the right answers in nats per token, None if it was not finite.
        """
        return None

    def known(
        self,
        kept: Mapping[str, float],
        task: Mapping[str, object],
        confusion: Counts | None,
        loss: float | None,
    ) -> float | None:
        """Return the value that is kept, by metric, or that follows from the rest."""
        if self.name in kept:
            return kept[self.name]
        return self.of_earlier(task, confusion, loss)

    def scaled(self, value: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return values on the scale of tests, where more is better."""
        return -value if self.lower_is_better else value

    def unscaled(self, value: float) -> float:
        """Return a value from the scale on which differences are tested."""
        return -value if self.lower_is_better else value

    def difference(self, by: float, low: float, high: float) -> str:
        """Return a difference on that scale with its limits as text."""
        return limited_points(by, low, high)

    def by(self, difference: float) -> str:
        """Return a difference on that scale as text, without a unit."""
        return points(difference)

    def as_score(self, value: float) -> float:
        """Return a value as a score from 0, the worst, to 1, the best."""
        worst, best = self._ends
        return (self._on_scale(value) - worst) / (best - worst)

    def of_score(self, score: float) -> float:
        """Return the value of a score from 0, the worst, to 1, the best."""
        worst, best = self._ends
        return self.unscaled(worst + score * (best - worst))

    @property
    def _ends(self) -> tuple[float, float]:
        """The worst and the best value on the scale of tests."""
        low, high = sorted(map(self._on_scale, self.limits))
        return low, high

    def _on_scale(self, value: float) -> float:
        import numpy as np  # as in the names of types: answers are read without it

        return float(self.scaled(np.array(value)))

    @property
    def axis_title(self) -> str:
        """The unit of differences in charts."""
        return f"{self.axis_unit} of {self.in_sentence}" if self.is_share else self.axis_unit

    @property
    def is_share(self) -> bool:
        """True if values are shares, shown in per cent."""
        return self.limits == (0.0, 1.0)

    @property
    def worst(self) -> float:
        """The worst value, that of a seed without a score."""
        return self.limits[1] if self.lower_is_better else self.limits[0]

    @property
    def in_sentence(self) -> str:
        """The title within a sentence."""
        is_acronym = self.title[1].isupper()
        return self.title if is_acronym else self.title[0].lower() + self.title[1:]

    @property
    def unit(self) -> str:
        """The head of a column of bare figures."""
        return f"{self.title} %" if self.is_share else self.title

    def figure(self, value: float) -> str:
        """Return a value as text, shares in per cent."""
        return percent(value) if self.is_share else self.bare(value)

    def bare(self, value: float) -> str:
        """Return a value as text without its unit."""
        return f"{100 * value:.1f}" if self.is_share else f"{value:.4g}"


class MeanMetric(Metric, ABC):
    """A metric that is the mean of the first statistic of items."""

    columns: ClassVar[int] = 1

    def summed(self, statistics: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return the first statistic of each item, and 1 for the item."""
        import numpy as np

        return np.stack((statistics[:, 0], np.ones(len(statistics))), axis=1)

    def _rank(self, statistics: tuple[float, ...]) -> tuple[float, ...]:
        return (*super()._rank(statistics), *statistics)

    def of_sums(self, sums: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return means, [..., column] to [...]."""
        return sums[..., 0] / sums[..., 1]


METRICS: Registry[Metric] = Registry("metric", "adaptlab.metrics")

Own = TypeVar("Own", bound=type[Metric])


def registered(metric: Own) -> Own:
    """Register a metric under its name."""
    METRICS.register(metric.name)(metric())
    return metric


def metrics() -> tuple[Metric, ...]:
    """Return all metrics, sorted by name."""
    return tuple(METRICS.get(name) for name in METRICS.names())


def accompanying(metric: Metric) -> tuple[Metric, ...]:
    """Return the metrics that are measured beside the one of a task."""
    if metric.needs != "answers":
        return ()
    return tuple(other for other in metrics() if other.needs == "endings")


def measured_on(task: Mapping[str, object]) -> tuple[Metric, ...]:
    """Return the metrics of results of a task, by its configuration.

    The task's own is first. A task that reads whole texts has all figures of these. A task that
    generates answers and judges them by their texts has only those that accompany it.
    """
    if (own := metric_named(task.get("metric"))) is not None:
        of_texts = (METRICS.get(name) for name in text_metrics(task) if name != own.name)
        return own, *accompanying(own), *of_texts
    if task.get("generation") is None:
        return tuple(one for one in metrics() if one.needs == "choices" and has_choices(task))
    return tuple(one for one in metrics() if one.needs == "endings")


def metric_named(name: object) -> Metric | None:
    """Return the metric with this name.

    None for the share of right items, and for unknown names.
    """
    return METRICS.get(name) if isinstance(name, str) and name in METRICS.names() else None


def is_share(name: object) -> bool:
    """Return True if the metric of this name, or the score, is a share."""
    metric = metric_named(name)
    return metric is None or metric.is_share


def lowest_is_best(name: object) -> bool:
    """Return True if the lowest value of the metric of this name is the best."""
    metric = metric_named(name)
    return metric is not None and metric.lower_is_better


def is_measured_against_base(name: object) -> bool:
    """Return True if a metric is the distance of a model from its base."""
    metric = metric_named(name)
    return metric is not None and metric.needs == "base"


@dataclass(frozen=True, slots=True)
class _Choice:
    """Annotation of a task's `metric`: its score, or one with these needs."""

    score: str
    needs: tuple[Needs, ...]

    def __get_pydantic_core_schema__(
        self, source: type[str], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        others = [one.name for one in metrics() if one.needs in self.needs]
        return core_schema.literal_schema([self.score, *others])


AnswerMetric = Annotated[
    str, _Choice("exact_match", ("likelihood", "likelihood_of_text", "answers"))
]
"""The metric of a task whose answers are texts."""
LabelMetric = Annotated[str, _Choice("accuracy", ("labels",))]
"""The metric of a task that chooses among labels."""
