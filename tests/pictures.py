"""Small images, drawn from a seed."""

import io

import numpy as np
from PIL import Image

from adaptlab.records.pictures import picture_text


def a_png(seed: int, channels: int = 1, height: int = 8, width: int = 8) -> bytes:
    """A PNG of random levels; those of a seed are the same everywhere."""
    levels = drawn(seed, channels, height, width)
    file = io.BytesIO()
    Image.fromarray(levels[..., 0] if channels == 1 else levels).save(file, "PNG")
    return file.getvalue()


def drawn(seed: int, channels: int = 1, height: int = 8, width: int = 8) -> np.ndarray:
    """Levels [height, width, channels], from 0 to 255."""
    drawing = np.random.default_rng(seed)
    return drawing.integers(0, 256, (height, width, channels), dtype=np.uint8)


def image_records(count: int, **size: int) -> list[dict[str, str]]:
    """Records with different images, which are an oak or an elm in turns."""
    return [
        {"image": picture_text(a_png(seed, **size)), "label": "oak" if seed % 2 else "elm"}
        for seed in range(count)
    ]
