"""Base models of one layer that several recipes share."""

from typing import Literal

from adaptlab.recipes.petrov2024.settings import (
    DOWN,
    FIRST_CUE,
    GPU,
    MIXTURE,
    NEW_CUE,
    SEEDS,
    SKILLS,
    SORTS,
    UP,
    Members,
    base,
    constant,
    cued,
    cued_skills,
    quick_steps,
    with_cues,
)

Attention = Literal["causal", "bidirectional", "none"]
CUED = (cued(UP, FIRST_CUE), cued(DOWN, FIRST_CUE + 1), cued(DOWN, NEW_CUE))
"""Both orders after their own cues, and the second after one that no model saw."""


def cued_sorting_base(attention: Attention, *, is_quick: bool) -> Members:
    """Return table 1's model, which sorts upwards after a cue."""
    base = quick_sorting_base(attention) if is_quick else sorting_base(attention)
    return with_cues(base, cued(UP, FIRST_CUE), CUED)


def cued_skilled_base(attention: Attention, *, is_quick: bool) -> Members:
    """Return table 2's model, which has four skills, each after its cue."""
    base = quick_skilled_base(attention) if is_quick else skilled_base(attention)
    return with_cues(base, cued_skills(), CUED)


def sorting_base(attention: Attention = "causal", *, layers: int = 1) -> Members:
    """Return table 1's model, which sorts upwards."""
    return base(
        f"petrov2024-sorting-{attention}{_depth(layers)}",
        {**_sorting(attention, layers), "dropout": 0.1},
        UP,
        constant(20_000, 5e-4),
        seeds=SEEDS,
        scored=SORTS,
        resources=GPU,
    )


def quick_sorting_base(attention: Attention = "causal", *, layers: int = 1) -> Members:
    """Return the same without dropout, in fewer steps at a higher rate."""
    return base(
        f"petrov2024-sorting-{attention}{_depth(layers)}-quick",
        _sorting(attention, layers),
        UP,
        quick_steps(800, learning_rate=5e-3),
        seeds=SEEDS,
        scored=SORTS,
        samples=1000,
    )


def skilled_base(
    attention: Attention = "causal", *, layers: int = 1, seeds: int = SEEDS
) -> Members:
    """Return table 2's model, which has four skills."""
    return base(
        f"petrov2024-skilled-{attention}{_depth(layers)}",
        {**_skilled(256, attention, layers), "dropout": 0.1},
        MIXTURE,
        constant(20_000, 5e-4),
        seeds=seeds,
        scored=SKILLS,
        resources=GPU,
    )


def quick_skilled_base(
    attention: Attention = "causal", *, layers: int = 1, seeds: int = SEEDS
) -> Members:
    """Return the same at width 64, without dropout, in fewer steps."""
    return base(
        f"petrov2024-skilled-{attention}{_depth(layers)}-quick",
        _skilled(64, attention, layers),
        MIXTURE,
        quick_steps(3000, learning_rate=6e-3),
        seeds=seeds,
        scored=SKILLS,
        samples=1000,
    )


def _depth(layers: int) -> str:
    """Return the suffix of a name for the layers, empty for one layer."""
    return "" if layers == 1 else f"-{layers}l"


def _sorting(attention: Attention, layers: int) -> Members:
    """Return one head of width 96, and one visible pad that a prefix replaces."""
    return {"layers": layers, "heads": 1, "width": 96, **_reach(attention)}


def _skilled(width: int, attention: Attention, layers: int) -> Members:
    """Return four heads without the norm before attention."""
    sizes: Members = {"layers": layers, "heads": 4, "width": width}
    return {**sizes, "attention_norm": False, **_reach(attention)}


def _reach(attention: Attention) -> Members:
    """Return the attention, with one pad if something can attend to it."""
    return {"attention": attention, "pad_positions": 0 if attention == "none" else 1}
