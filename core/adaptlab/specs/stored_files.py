"""Bytes of the files that a job stores: checkpoints and a saved state."""

from adaptlab.specs.model_shapes import model_shape
from adaptlab.specs.resolved import Resolved

MOMENTS = 2
"""Moments of AdamW per trained scalar; a saved state has them next to the weights."""
FLOAT32_BYTES, FLOAT64_BYTES = 4, 8


def stored_bytes(spec: Resolved) -> int:
    """Return the bytes of the tensors in the checkpoints of all seeds."""
    if spec.training is None:
        return 0
    scalars = spec.budget.stored_bytes // FLOAT32_BYTES
    return len(spec.seeds) * scalars * _scalar_bytes(spec)


def saved_bytes(spec: Resolved) -> int:
    """Return the bytes of the tensors in a saved state of a training.

    It has weights and moments of every replicate, and with early stopping also the best weights.
    """
    if spec.training is None or not spec.trains:
        return 0
    shape, method = model_shape(spec), spec.method
    scalars = shape.parameters if method is None else method.trained_scalars(shape)
    stops = spec.training.early_stopping is not None
    keeps = method is not None and method.keeps_best
    searches = method is not None and method.is_search
    copies = 1 + MOMENTS + (stops or keeps) + searches
    return len(spec.seeds) * len(spec.trials) * copies * scalars * _scalar_bytes(spec)


def _scalar_bytes(spec: Resolved) -> int:
    return FLOAT64_BYTES if spec.precision == "float64" else FLOAT32_BYTES
