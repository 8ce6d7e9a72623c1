"""Demonstrations compressed to the states of a few tokens."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.theory_check import THEORY_CHECKS
from adaptlab.theory_checks.on_demonstrations import OnDemonstrations


@THEORY_CHECKS.register("compression")
class Compression(OnDemonstrations):
    """Label words as anchors: the states that stand for demonstrations.

    The demonstrations are read in full, and the query then attends to the states of some of their
    tokens only. The anchors are the labels with the formatting, which is the separators before
    them and the line breaks after them. They are compared with the formatting and as many random
    words, as a mean of `draws` and as the best of them in each replicate, and with the anchors as a
    text of their own. Labels without formatting are compared with line breaks alone.

    Loyalty is the share of answers that stay the same, word loyalty the overlap (Jaccard's index)
    of the five likeliest tokens with those before, and accuracy is next to both. Every replicate of
    the base is measured, after it is checked that each uses demonstrations, and limits are over
    replicates and items.
    """

    title: ClassVar[str] = "Compressed demonstrations"
    summary: ClassVar[str] = "States of labels and formatting stand for whole demonstrations."
    passes: ClassVar[int] = 6
    """Two to see whether the base uses demonstrations, and four of compressed ones."""

    name: Literal["compression"] = "compression"
    draws: int = Field(default=20, ge=1, le=50)

    def all_passes(self) -> int:
        """Return the passes of all items, with one per draw of random words."""
        return self.passes + self.draws
