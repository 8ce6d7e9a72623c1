"""Typical lengths of texts, for estimates of time."""

import math
from collections.abc import Callable, Mapping

from adaptlab.text.template import Template
from adaptlab.text.tokeniser import BYTES_VOCABULARY

BYTES_PER_TOKEN = 4
"""Bytes of UTF-8 per token of a published tokeniser; English texts have about as many."""
PADDED = 1.3
"""Width of a batch per mean length: items are sorted by length within some steps.

Measured with sentences of 24 tokens in the median: batches of 8 were 33 tokens wide on average.
"""

MeanBytes = Callable[[str], Mapping[str, float] | None]
"""Returns the mean bytes of the fields of a dataset by its digest, None if they are unknown."""


def unknown(_: str) -> None:
    """Return None: nothing is known about the lengths of any dataset."""


def padded_tokens(mean: float, vocabulary: int) -> int:
    """Return the width in tokens of a typical batch of texts of `mean` bytes."""
    per_token = 1 if vocabulary <= BYTES_VOCABULARY else BYTES_PER_TOKEN
    return math.ceil(PADDED * mean / per_token)


def rendered_bytes(template: Template, means: Mapping[str, float]) -> float:
    """Return the mean bytes of a rendered template."""
    return sum(means[p.text] if p.is_field else len(p.text.encode()) for p in template.pieces)
