"""The size of one pass of scoring."""

from adaptlab.plugins.shapes import ModelShape

TOKENS_AT_ONCE = 2**16
FEATURES_AT_ONCE = 2**26
"""The most scalars of one matrix product in a pass, 256 MiB in float32."""


def items_at_once(shape: ModelShape, replicates: int, tokens: int, answers: int) -> int:
    """Return the number of items that a model scores in one pass.

    Args:
        shape: the model.
        replicates: replicates in the pass.
        tokens: positions of an item.
        answers: positions of an item that predict an answer token; only they have logits.
    """
    widest = max((s.outputs for s in shape.linear_sites if s.layer is not None), default=1)
    features = max(widest * tokens, (shape.classes or shape.vocabulary) * answers)
    most = min(TOKENS_AT_ONCE // tokens, FEATURES_AT_ONCE // features)
    return max(1, most // replicates)
