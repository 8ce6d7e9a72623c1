"""Checks of reported attention maps."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from adaptlab.errors import Problem
from adaptlab.runs.bounds import (
    ROUNDING,
    brief,
    count,
    equal,
    number,
    of_words,
)
from adaptlab.runs.events import AttentionPatterns, AttentionSummary

AXES = ("sample", "layer", "head", "query", "key")
NPY = b"\x93NUMPY\x01\x00"
"""The first bytes of a `.npy` file, including its version."""
NUMBER_BYTES = 2  # float16
LARGEST_HEADER = 1024
"""Bytes before the numbers, more than an array with five axes needs."""


def is_map_file(start: bytes, size: int, shape: tuple[int, ...]) -> bool:
    """Return True if a file of `size` bytes that begins with `start` is a map.

    It must be a file that `numpy.save` writes for a float16 array of this shape: a version, the
    length of the header, the header, then the numbers and nothing else.
    """
    length = int.from_bytes(start[len(NPY) : len(NPY) + 2], "little")
    begin = len(NPY) + 2 + length
    header = f"{{'descr': '<f2', 'fortran_order': False, 'shape': {shape}, }}".encode()
    actual = start[len(NPY) + 2 : begin]
    is_complete = size == begin + NUMBER_BYTES * math.prod(shape)
    return start.startswith(NPY) and actual.rstrip() == header and is_complete


@dataclass(frozen=True, slots=True)
class ExpectedMaps:
    """The attention maps that one job records.

    Samples of texts have different lengths, up to `content` positions and `targets` tokens. All
    others have as many.

    Attributes:
        is_adapted: whether there is a map of the adapted model in addition to the base's.
        samples: recorded inputs.
        layers: layers with attention.
        heads: heads of each layer.
        content: content positions of an input, which are the queries.
        before: visible pad positions of the base before the content.
        learned: the most keys besides the content: `before` and the learned positions.
        target_start: the first query row that produces an answer token.
        targets: answer tokens.
        vocabulary: tokens of the model, which is also the id of the mask.
        are_texts: whether samples are texts, or images, whose words are their patches.
        choices: answers to choose from, 0 if any tokens can be the answer.
    """

    is_adapted: bool
    samples: int
    layers: int
    heads: int
    content: int
    before: int
    learned: int
    target_start: int
    targets: int
    vocabulary: int
    are_texts: bool = False
    choices: int = 0

    def problems(self, at: str, reported: AttentionPatterns) -> Iterator[Problem]:
        """Yield the problems of one map, with pointers below `at`."""
        if reported.source == "adapted" and not self.is_adapted:
            detail = "The job adapts no model, so there is no adapted attention. Report `base`."
            yield Problem(f"{at}/source", "not_adapted", detail)
        most = self.learned if reported.source == "adapted" else self.before
        yield from count(f"{at}/learned_positions", reported.learned_positions, 0, most)
        content = self._content(reported)
        keys = content + min(max(reported.learned_positions, 0), most)
        shape = (self.samples, self.layers, self.heads, content, keys)
        yield from equal(f"{at}/shape", reported.shape, shape, "shape of a map")
        yield from equal(f"{at}/axes", reported.axes, AXES, "axes of a map")
        yield from self._tokens(f"{at}/tokens", reported.tokens, content, self.vocabulary)
        if not self.are_texts:
            start = self.target_start
            yield from equal(f"{at}/target_start", reported.target_start, start, "first answer")
            yield from equal(f"{at}/texts", len(reported.texts), 0, "number of texts")
        else:
            yield from self._texts(at, reported)
        told = self.targets if not self.choices else 1
        highest = (self.choices or self.vocabulary) - 1
        yield from self._tokens(f"{at}/predictions", reported.predictions, told, highest)
        yield from self._heads(f"{at}/summaries", reported.summaries)

    def _content(self, reported: AttentionPatterns) -> int:
        """Return the content positions of a map, which are reported for texts."""
        if not self.are_texts or len(reported.shape) != len(AXES):
            return self.content
        return min(max(reported.shape[3], 1), self.content)

    def _tokens(
        self, at: str, rows: Sequence[Sequence[int]], length: int, highest: int
    ) -> Iterator[Problem]:
        """Yield a problem unless every sample has `length` valid tokens.

        Texts may have fewer.
        """
        yield from equal(at, len(rows), self.samples, "number of samples")
        for place, row in enumerate(rows[: self.samples]):
            if self.are_texts:
                yield from count(f"{at}/{place}", len(row), 1, length)
            else:
                yield from equal(f"{at}/{place}", len(row), length, "number of tokens")
            for token in row[:length]:
                if not 0 <= token <= highest:
                    yield from count(f"{at}/{place}", token, 0, highest)
                    break

    def _texts(self, at: str, reported: AttentionPatterns) -> Iterator[Problem]:
        """Yield the problems of the words of texts."""
        yield from equal(f"{at}/texts", len(reported.texts), self.samples, "number of samples")
        starts = [shown.target_start for shown in reported.texts]
        least = min(starts, default=0)
        yield from equal(
            f"{at}/target_start", reported.target_start, least, "first answer of all texts"
        )
        for place, (shown, tokens, told) in enumerate(
            zip(reported.texts, reported.tokens, reported.predictions, strict=False)
        ):
            here = f"{at}/texts/{place}"
            yield from equal(f"{here}/words", len(shown.words), len(tokens), "number of tokens")
            yield from count(f"{here}/target_start", shown.target_start, 0, len(tokens) - 1)
            most = len(told)
            for name in ("expected", "predicted"):
                words = getattr(shown, name)
                yield from equal(f"{here}/{name}", len(words), most, "number of answer tokens")
            yield from of_words(here, (*shown.words, *shown.expected, *shown.predicted))

    def _heads(self, at: str, summaries: Sequence[AttentionSummary]) -> Iterator[Problem]:
        """Yield a problem unless there is one summary per head of every layer."""
        heads = [(summary.layer, summary.head) for summary in summaries]
        every = self.layers * self.heads
        within = all(0 <= i < self.layers and 0 <= j < self.heads for i, j in heads)
        if len(heads) != every or len(set(heads)) != every or not within:
            detail = (
                f"Each of the {self.layers} layers has {self.heads} heads with one summary each, "
                f"but {len(heads)} summaries were sent, for {brief(heads[:8])}."
            )
            yield Problem(at, "not_one_a_head", detail)
        for place, summary in enumerate(summaries[:every]):
            yield from self._figures(f"{at}/{place}", summary)

    def _figures(self, at: str, summary: AttentionSummary) -> Iterator[Problem]:
        bounds = {
            "entropy": math.log(self.content),
            "learned_mass": 1.0,
            "divergence": math.log(2),
            "relative_deviation": 1.0,
        }
        for name, most in bounds.items():
            yield from number(f"{at}/{name}", getattr(summary, name), -ROUNDING, most + ROUNDING)
