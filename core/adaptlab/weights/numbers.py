"""Numbers of stored tensors, without torch."""

import numpy as np
from numpy.typing import NDArray

from adaptlab.weights.weights_file import StoredTensor

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def numbers(stored: StoredTensor, content: bytes) -> NDArray[np.float32]:
    """Return a tensor of weights in float32, from its bytes in the file.

    numpy has no bfloat16, which is the upper half of a float32.
    """
    if stored.dtype == "BF16":
        halves = np.frombuffer(content, "<u2").astype("<u4")
        return (halves << 16).view("<f4").reshape(stored.shape)
    return np.frombuffer(content, _TYPES[stored.dtype]).astype(np.float32).reshape(stored.shape)
