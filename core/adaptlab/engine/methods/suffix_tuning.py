"""Suffix-tuning: learned rows that only the answer sees, in every layer's attention."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.suffix_tuning import SuffixTuning
from adaptlab.shapes import ModelShape


@ENGINE_METHODS.register("suffix_tuning")
def attach(method: SuffixTuning, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Put the suffix after the question of every layer's attention."""
    return Attachments(suffixes=tensors)
