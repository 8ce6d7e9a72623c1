"""Base models that translate words, as in the paper's appendix C."""

from adaptlab.recipes.petrov2024.settings import (
    GPU,
    SEEDS,
    Members,
    base,
    constant,
    quick_steps,
)

ROWS = 66
"""Rows of the paper's prefix and pads of its model: 67,584 parameters at its width."""
WORDS = 4921
QUICK_PADS = 8
QUICK_WORDS: Members = {"words": 256, "longest": 8}


def german(**knobs: object) -> Members:
    """Return the translation of English words to German."""
    return {"name": "word_translation", "target": "german", **knobs}


def spanish(**knobs: object) -> Members:
    """Return the translation of the same English words to Spanish."""
    return {"name": "word_translation", "target": "spanish", **knobs}


def either(**knobs: object) -> Members:
    """Return the translation to German or Spanish, without a cue to which."""
    return {"name": "mixture", "tasks": (german(**knobs), spanish(**knobs))}


LANGUAGES = (german(), spanish())


def translator(name: str, task: Members) -> Members:
    """Return the paper's model: four layers of width 256, 50,000 steps."""
    return base(
        f"petrov2024-{name}",
        {**_sizes(256, ROWS), "dropout": 0.1},
        task,
        constant(50_000, 5e-4),
        seeds=SEEDS,
        scored=LANGUAGES,
        samples=WORDS,
        resources=GPU,
    )


def quick_translator(name: str, task: Members, *, steps: int = 2000) -> Members:
    """Return a model of width 64 that knows 256 words of at most 8 letters."""
    return base(
        f"petrov2024-{name}-quick",
        _sizes(64, QUICK_PADS),
        task,
        quick_steps(steps, learning_rate=3e-3),
        seeds=SEEDS,
        scored=quick_scored(),
        samples=256,
    )


def quick_scored() -> tuple[Members, ...]:
    """Return both languages of the quick presets."""
    return (german(**QUICK_WORDS), spanish(**QUICK_WORDS))


def _sizes(width: int, pads: int) -> Members:
    return {"layers": 4, "heads": 4, "width": width, "pad_positions": pads}
