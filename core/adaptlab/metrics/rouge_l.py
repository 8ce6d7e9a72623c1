"""ROUGE-L: the longest common subsequence of words of two answers.

Source: Lin (ACL workshop 2004), section 3, as rouge-score computes it without stemming: words are
of the letters a to z and digits, and precision and recall weigh alike.
"""

from collections.abc import Sequence
from typing import ClassVar

from adaptlab.plugins.metric import MeanMetric, Needs, registered
from adaptlab.records.answer_forms import AnswerForm, latin_words


@registered
class RougeL(MeanMetric):
    """The mean ROUGE-L of decoded answers, each an item's statistic.

    Right answers in other letters, of which rouge-score reads nothing, are refused. A given answer
    without any word that is read shares none, and counts 0.
    """

    name: ClassVar[str] = "rouge_l"
    title: ClassVar[str] = "ROUGE-L"
    meaning: ClassVar[str] = (
        "the longest common subsequence of words of given and right answers, as by rouge-score, "
        "for tasks with this metric; for answers in letters a to z"
    )
    needs: ClassVar[Needs] = "answers"
    reads: ClassVar[AnswerForm | None] = "latin"

    def of_answer(self, given: str, right: str) -> tuple[float, ...]:
        if not self.reads_answer(right):
            raise ValueError(
                f"ROUGE-L cannot read the right answer {right[:64]!r}: most of it is not in "
                "letters a to z. Use `metric: chrf`."
            )
        ours, theirs = latin_words(given), latin_words(right)
        return (2 * common_subsequence(ours, theirs) / (len(ours) + len(theirs)),)


def common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence of words.

    A bit of `open_places` is 0 where the length grows, so a row of the usual table takes one
    addition. Source: Hyyrö (AWOCA 2004), section 4.
    """
    places: dict[str, int] = {}
    for place, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << place
    every = (1 << len(first)) - 1
    open_places = every
    for word in second:
        matched = open_places & places.get(word, 0)
        open_places = ((open_places + matched) | (open_places - matched)) & every
    return len(first) - open_places.bit_count()
