"""The right answers of records beside the first one, as tokens."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adaptlab.plugins.corpus_arrays import Corpus


@dataclass(frozen=True)
class OtherAnswers:
    """Tokens of answers, of which a record has any number.

    Attributes:
        tokens: those of all answers, one after the other.
        ends: the place behind the last token of each answer.
        counts: the answers of each record and of all before it.
    """

    tokens: NDArray[np.int32]
    ends: NDArray[np.int64]
    counts: NDArray[np.int64]

    def of_record(self, record: int) -> list[tuple[int, ...]]:
        """Return the tokens of each of a record's further right answers."""
        first = int(self.counts[record - 1]) if record else 0
        return [self._answer(place) for place in range(first, int(self.counts[record]))]

    def _answer(self, place: int) -> tuple[int, ...]:
        start = int(self.ends[place - 1]) if place else 0
        return tuple(self.tokens[start : int(self.ends[place])].tolist())


def other_answers(corpus: Corpus) -> OtherAnswers | None:
    """Return the answers of a corpus, None if no record has more than one."""
    if not corpus.others:
        return None
    return OtherAnswers(
        tokens=np.frombuffer(corpus.others, np.int32),
        ends=np.cumsum(corpus.other_lengths, dtype=np.int64),
        counts=np.cumsum(corpus.other_counts, dtype=np.int64),
    )
