"""Attention maps that a run of a resolved spec can report."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from adaptlab.errors import Problem
from adaptlab.measurements.report_bounds import ROUNDING, brief, count, equal, number
from adaptlab.measurements.results import AttentionMap, AttentionSummary

AXES = ("sample", "layer", "head", "query", "key")
NPY = b"\x93NUMPY\x01\x00"
"""The first bytes of a `.npy` file, with its version."""
NUMBER_BYTES = 2  # float16
LARGEST_HEADER = 1024
"""Bytes before the numbers: more than an array of five axes needs."""


def is_map_file(start: bytes, size: int, shape: tuple[int, ...]) -> bool:
    """Return True if a file of `size` bytes that begins with `start` can hold a map.

    It is what `numpy.save` writes of a float16 array of this shape: a version, the length of a
    header, the header, then the numbers and nothing else.
    """
    length = int.from_bytes(start[len(NPY) : len(NPY) + 2], "little")
    begin = len(NPY) + 2 + length
    header = f"{{'descr': '<f2', 'fortran_order': False, 'shape': {shape}, }}".encode()
    told = start[len(NPY) + 2 : begin]
    whole = size == begin + NUMBER_BYTES * math.prod(shape)
    return start.startswith(NPY) and told.rstrip() == header and whole


@dataclass(frozen=True, slots=True)
class ExpectedMaps:
    """The attention maps that one job records.

    Attributes:
        is_adapted: whether there is a map of the adapted model beside the base's.
        samples: recorded inputs.
        layers: layers with attention.
        heads: heads of each.
        content: content positions of an input, which are the queries.
        before: visible positions of the base itself that are before the content.
        learned: the most keys beside the content, learned ones and those.
        target_start: the first query row that produces an answer token.
        targets: answer tokens.
        vocabulary: tokens of the model; the mask has this number.
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

    def problems(self, at: str, told: AttentionMap) -> Iterator[Problem]:
        """The problems of one map, with pointers below `at`."""
        if told.source == "adapted" and not self.is_adapted:
            detail = "A base model has no adapted attention."
            yield Problem(f"{at}/source", "not_adapted", detail)
        most = self.learned if told.source == "adapted" else self.before
        yield from count(f"{at}/learned_positions", told.learned_positions, 0, most)
        keys = self.content + min(max(told.learned_positions, 0), most)
        shape = (self.samples, self.layers, self.heads, self.content, keys)
        yield from equal(f"{at}/shape", told.shape, shape, "shape of a map")
        yield from equal(f"{at}/axes", told.axes, AXES, "axes of a map")
        yield from equal(f"{at}/target_start", told.target_start, self.target_start, "first answer")
        yield from self._tokens(f"{at}/tokens", told.tokens, self.content, self.vocabulary)
        yield from self._tokens(
            f"{at}/predictions", told.predictions, self.targets, self.vocabulary - 1
        )
        yield from self._heads(f"{at}/summaries", told.summaries)

    def _tokens(
        self, at: str, told: Sequence[Sequence[int]], length: int, highest: int
    ) -> Iterator[Problem]:
        """One row a sample, of so many tokens up to `highest`."""
        yield from equal(at, len(told), self.samples, "number of samples")
        for place, row in enumerate(told[: self.samples]):
            yield from equal(f"{at}/{place}", len(row), length, "number of tokens")
            for token in row[:length]:
                if not 0 <= token <= highest:
                    yield from count(f"{at}/{place}", token, 0, highest)
                    break

    def _heads(self, at: str, told: Sequence[AttentionSummary]) -> Iterator[Problem]:
        """One summary for every head of every layer."""
        heads = [(one.layer, one.head) for one in told]
        every = self.layers * self.heads
        within = all(0 <= i < self.layers and 0 <= j < self.heads for i, j in heads)
        if len(heads) != every or len(set(heads)) != every or not within:
            detail = (
                f"Each of the {self.layers} layers has {self.heads} heads with one summary each; "
                f"{len(heads)} summaries were sent, of {brief(heads[:8])}."
            )
            yield Problem(at, "not_one_a_head", detail)
        for place, one in enumerate(told[:every]):
            yield from self._figures(f"{at}/{place}", one)

    def _figures(self, at: str, one: AttentionSummary) -> Iterator[Problem]:
        bounds = {
            "entropy": math.log(self.content),
            "learned_mass": 1.0,
            "divergence": math.log(2),
            "relative_deviation": 1.0,
        }
        for name, most in bounds.items():
            yield from number(f"{at}/{name}", getattr(one, name), -ROUNDING, most + ROUNDING)
