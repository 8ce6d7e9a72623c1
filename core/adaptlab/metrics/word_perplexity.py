"""Perplexity of the right answers per word, comparable over tokenisers."""

from collections.abc import Mapping
from typing import ClassVar

from adaptlab.metrics.perplexity import Perplexity
from adaptlab.plugins.metric import Counts, Needs, registered
from adaptlab.records.text_units import TextUnit


@registered
class WordPerplexity(Perplexity):
    """e to the power of the loss of the right answers per word of their text.

    An item's statistics are its loss in nats and the words of its answer in the dataset, which are
    the parts between spaces, as in lm-eval. Differences are tested in nats per word.
    """

    name: ClassVar[str] = "word_perplexity"
    title: ClassVar[str] = "Word perplexity"
    meaning: ClassVar[str] = (
        "e to the power of the loss of the right answers per word of their text, for tasks with "
        "this metric; lower is better, comparable over tokenisers"
    )
    needs: ClassVar[Needs] = "likelihood_of_text"
    text_unit: ClassVar[TextUnit] = "words"
    compares_bases: ClassVar[bool] = True
    axis_unit: ClassVar[str] = "nats per word"

    def of_earlier(
        self, task: Mapping[str, object], confusion: Counts | None, loss: float | None
    ) -> None:
        """Return None: the loss of earlier results is per token."""
