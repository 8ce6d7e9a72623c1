"""Perplexity of the right answers per byte, comparable over tokenisers."""

from collections.abc import Mapping
from typing import ClassVar

from adaptlab.metrics.perplexity import Perplexity
from adaptlab.plugins.metric import Counts, Needs, registered


@registered
class BytePerplexity(Perplexity):
    """e to the power of the loss of the right answers per byte of their text.

    An item's statistics are its loss in nats and the bytes of its answer in the dataset.
    Differences are tested in nats per byte.
    """

    name: ClassVar[str] = "byte_perplexity"
    title: ClassVar[str] = "Byte perplexity"
    meaning: ClassVar[str] = (
        "e to the power of the loss of the right answers per byte of their text, for tasks with "
        "this metric; lower is better, comparable over tokenisers"
    )
    needs: ClassVar[Needs] = "likelihood_of_text"
    compares_bases: ClassVar[bool] = True
    axis_unit: ClassVar[str] = "nats per byte"

    def of_earlier(
        self, task: Mapping[str, object], confusion: Counts | None, loss: float | None
    ) -> None:
        """Return None: the loss of earlier results is per token."""
