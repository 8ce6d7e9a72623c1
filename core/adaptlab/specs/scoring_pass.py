"""The size of one pass of scoring."""

from adaptlab.plugins.shapes import ModelShape

TOKENS_AT_ONCE = 2**16
FEATURES_AT_ONCE = 2**26
"""The most scalars of one matrix product in a pass, 256 MiB in float32."""

KEPT_AT_ONCE = 2**28
"""The most scalars of keys and values that are kept for decoding, 1 GiB in float32."""


def items_kept_at_once(shape: ModelShape, replicates: int, tokens: int) -> int:
    """Return the number of items whose keys and values are kept at once.

    Args:
        shape: the model.
        replicates: replicates in the pass.
        tokens: positions of an item.
    """
    return max(1, KEPT_AT_ONCE // max(1, kept_scalars(shape) * tokens * replicates))


def kept_scalars(shape: ModelShape) -> int:
    """Return the scalars of keys and values of one position."""
    return 2 * sum(site.outputs for site in shape.layer_sites("attention_keys_values"))


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
