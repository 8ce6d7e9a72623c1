"""Suffix-tuning: learned rows after the question, for the answer only."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.suffix_tuning import VIRTUAL_TOKENS, SuffixTuning
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("suffix_tuning")
def attach(method: SuffixTuning, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Put the suffix after the question."""
    if method.scope == "input_only":
        return Attachments(late_prompt=tensors[VIRTUAL_TOKENS])
    return Attachments(suffixes=tensors)
