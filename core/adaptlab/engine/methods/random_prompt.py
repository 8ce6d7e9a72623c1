"""Random tokens before the input."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.random_prompt import RandomPrompt
from adaptlab.plugins.hard_prompt import PROMPT
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("random_prompt")
def attach(method: RandomPrompt, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Put the tokens' embeddings before the input."""
    return Attachments(prompt=tensors[PROMPT])
