"""BLEU: the overlap of runs of one to four words of two answers.

Source: Papineni et al. (ACL 2002), as sacreBLEU 2 computes it by default: tokeniser 13a, case kept,
exponential smoothing. It is one score of all items and no mean over them.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from adaptlab.figures import percent
from adaptlab.plugins.metric import Metric, Needs, registered

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

LONGEST = 4
"""Words of the longest runs."""
SHORT_SHARE = 0.5
"""The share of right answers without such a run from which there is a caution."""


@registered
class Bleu(Metric):
    """BLEU of decoded answers.

    An item's statistics are the words of the given and of the right answer, the runs of 1 to 4
    words that both share, and those of the given one. The library computes them in the trainer. Of
    several right answers, the one nearest in length counts as the right one, and a run is shared as
    often as any of them has it.
    """

    name: ClassVar[str] = "bleu"
    title: ClassVar[str] = "BLEU"
    meaning: ClassVar[str] = (
        "the overlap of runs of one to four words of given and right answers, as by sacreBLEU, for "
        "tasks with this metric; 0 if no answer has four words"
    )
    needs: ClassVar[Needs] = "answers"
    columns: ClassVar[int] = 2 + 2 * LONGEST

    def __init__(self, *, several: bool = False) -> None:
        self._several = several

    def of_several(self) -> Metric:
        return Bleu(several=True)

    def signature(self) -> str:
        library = _library()
        others = [["one", None]] if self._several else []  # numbers that vary
        library.corpus_score(["one", "one"], cast("list[list[str]]", [["one", "one"], *others]))
        return f"{self.version}|sacrebleu|{library.get_signature()}"

    def of_answer(self, given: str, right: str) -> tuple[float, ...]:
        return self.of_references(given, (right,))

    def of_references(self, given: str, references: Sequence[str]) -> tuple[float, ...]:
        found = _library().corpus_score([given], [[right] for right in references])
        return (found.sys_len, found.ref_len, *found.counts, *found.totals)

    def of_sums(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        given, right = sums[..., 0], sums[..., 1]
        shared, total = sums[..., 2 : 2 + LONGEST], sums[..., 2 + LONGEST :]
        missed = (shared == 0) & (total > 0)
        smoothed = np.where(missed, 0.5 ** missed.cumsum(axis=-1), shared)
        with np.errstate(divide="ignore"):
            logs = np.log(smoothed / np.maximum(total, 1)).mean(axis=-1)
        shortness = np.minimum(0.0, 1 - right / np.maximum(given, 1))
        return np.where(shared.any(axis=-1), np.exp(logs + shortness), 0.0)

    def caution(self, statistics: NDArray[np.float64]) -> str | None:
        short = float((statistics[:, 1] < LONGEST).mean())
        if short < SHORT_SHARE:
            return None
        effect = "so it is 0 even if all are right" if short == 1 else "which add little to it"
        return (
            f"BLEU counts runs of up to {LONGEST} words, but {percent(short, 0)} of the right "
            f"answers have fewer than {LONGEST} words, {effect}. Use `metric: chrf` for them."
        )


@cache
def _library() -> "BLEU":
    from sacrebleu.metrics.bleu import BLEU

    return BLEU()
