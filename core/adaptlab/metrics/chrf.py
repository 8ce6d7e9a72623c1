"""chrF: the overlap of the character n-grams of given and right answers.

Source: Popović (WMT 2015), as sacreBLEU 2 computes it by default: chrF2, n-grams of 1 to 6
characters without spaces, no words. Unlike a mean over items, it is one score of all n-grams.
"""

from collections import Counter
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adaptlab.plugins.metric import Metric, Needs, registered

LONGEST = 6
RECALL_WEIGHT = 4
"""β² of the F score: recall counts twice as much as precision."""


@registered
class ChrF(Metric):
    """chrF2 of decoded answers.

    An item's statistics are, for every n, the n-grams of the given answer, those of the right one,
    and those that both share. Those of a given answer do not count where the right one is shorter.
    Of several right answers, that with the best score counts, as in sacreBLEU.
    """

    name: ClassVar[str] = "chrf"
    title: ClassVar[str] = "chrF"
    meaning: ClassVar[str] = (
        "the overlap of n-grams of characters of given and right answers, for tasks with this "
        "metric"
    )
    needs: ClassVar[Needs] = "answers"
    columns: ClassVar[int] = 3 * LONGEST

    def of_answer(self, given: str, right: str) -> tuple[float, ...]:
        texts = ["".join(text.split()) for text in (given, right)]
        found: list[float] = []
        for size in range(1, LONGEST + 1):
            ours, theirs = (
                Counter(text[at : at + size] for at in range(len(text) - size + 1))
                for text in texts
            )
            total = theirs.total()
            found += (ours.total() if total else 0, total, (ours & theirs).total())
        return tuple(found)

    def of_sums(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        given, right, shared = np.moveaxis(sums.reshape(*sums.shape[:-1], LONGEST, 3), -1, 0)
        known = (given > 0) & (right > 0)
        orders = np.maximum(known.sum(axis=-1), 1)
        precision = (shared / np.maximum(given, 1) * known).sum(axis=-1) / orders
        recall = (shared / np.maximum(right, 1) * known).sum(axis=-1) / orders
        weighted = RECALL_WEIGHT * precision + recall
        score = (1 + RECALL_WEIGHT) * precision * recall
        return np.divide(score, weighted, out=np.zeros_like(weighted), where=weighted > 0)
