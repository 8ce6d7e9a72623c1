"""Items that are made while the card computes earlier steps.

The processor starts the kernels of a step long before a GPU has computed those of the steps before.
Making items can wait for the device, because the number of rejected draws must be known, or texts
are copied to it. On a stream of their own that waits for the items alone, not for all steps so far.
"""

from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from adaptlab.engine.items.items import Items


def prefetched(made: Iterator[Items], device: torch.device) -> Iterator[Items]:
    """Yield items that a GPU makes on a stream of their own.

    What they are made of must be ready when the first are asked for.
    """
    if device.type != "cuda":
        yield from made
        return
    stream, present = _stream(device), torch.cuda.current_stream(device)
    stream.wait_stream(present)

    def handed_over(tensor: Tensor) -> Tensor:
        tensor.record_stream(present)  # its memory is not used again before the step has ended
        return tensor

    while True:
        with torch.cuda.stream(stream):
            items = next(made, None)
        if items is None:
            return
        present.wait_stream(stream)
        yield items.each(handed_over)


@cache  # one per device
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream on which items are made."""
    return torch.cuda.Stream(device)
