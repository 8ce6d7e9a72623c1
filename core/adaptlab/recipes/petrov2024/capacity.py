"""Section 3: how many completions a hard and a soft first token can start."""

from adaptlab.claim import Claim
from adaptlab.recipe import RECIPES, Recipe
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024.claims import claim, holds
from adaptlab.recipes.petrov2024.words import QUICK_WORDS, german, quick_translator, translator
from adaptlab.study import StudySpec

DIGITS, WORDS = "digits", "words"
CHECK = "capacity"
SOFT = 48_218
"""Soft first vectors that the published notebook completes."""


@RECIPES.register("petrov2024/capacity")
def capacity() -> Recipe:
    """Different greedy completions of ten tokens, from all hard and from many soft first tokens."""
    return Recipe(
        name="petrov2024/capacity",
        title="Completions of one first token, hard or soft",
        question="How many more completions can a soft token start than a hard one?",
        source=f"{paper.SOURCE}, section 3 and published notebook",
        base_models=(DIGITS, WORDS),
        presets={
            "quick": _study(
                (paper.quick_skills_base(), quick_translator("german", german(**QUICK_WORDS))),
                soft_tokens=2048,
            ),
            "faithful": _study(_paper_bases(), resources=paper.GPU, soft_tokens=SOFT),
            "fair": _study(
                _paper_bases(),
                resources=paper.GPU,
                soft_tokens=SOFT,
                directed_tokens=4096,
                steps=500,
            ),
        },
        claims=_claims(),
        notes={
            "quick": "Two small models trained here, of 11 and some 50 tokens, where the paper has "
            "LLaMA-7B: 24,426 completions of its 32,000 hard tokens and 46,812 of 48,218 stored "
            "soft ones, whose making is not in the code. 2,048 soft vectors are drawn at random "
            "and 64 are searched for. About 3 minutes on two cores with 3 seeds.",
            "faithful": "As many soft vectors as the paper's notebook completes, drawn at random, "
            "and 64 that are searched for, on the paper's own small models: its LLaMA-7B can be "
            "imported by whoever has it. For a GPU, because of the pretraining.",
            "fair": "The same with 4,096 vectors searched for in 500 steps each. For a GPU.",
        },
    )


def _claims() -> tuple[Claim, ...]:
    return (
        claim(
            "soft-beats-hard",
            "A soft first token starts more completions than a hard one, of which there are as "
            "many as tokens at most.",
            holds(CHECK),
        ),
    )


def _paper_bases() -> tuple[paper.Members, ...]:
    return (paper.skills_base(), translator("german", german()))


def _study(
    bases: tuple[paper.Members, ...], resources: paper.Members | None = None, **knobs: object
) -> StudySpec:
    return StudySpec.model_validate(
        {
            "name": "petrov2024-capacity",
            "base_models": bases,
            "checks": ({"name": CHECK, "length": 10, **knobs},),
            "resources": resources or {},
        }
    )
