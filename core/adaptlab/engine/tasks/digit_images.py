"""The images of digits that ship with scikit-learn."""

from functools import lru_cache

import torch

from adaptlab.engine.items.images import ENGINE_IMAGES, Labelled, in_split
from adaptlab.plugins.splits import Split
from adaptlab.records.digits_table import digit_rows
from adaptlab.tasks.digit_images import DigitImages


@ENGINE_IMAGES.register("digit_images")
def images(task: DigitImages, split: Split) -> Labelled:
    """Return the images of the task's digits in a split.

    Raises:
        BadDataset: they are not installed, or are others.
    """
    every = _every()
    chosen = torch.tensor(task.digits)
    classes = (every.classes.unsqueeze(1) == chosen).int()
    kept = classes.any(1)
    return in_split(Labelled(every.levels[kept], classes[kept].argmax(1)), split)


@lru_cache(maxsize=1)
def _every() -> Labelled:
    rows = digit_rows()
    levels = torch.tensor([list(row.levels) for row in rows], dtype=torch.uint8)
    return Labelled(levels, torch.tensor([row.digit for row in rows]))
