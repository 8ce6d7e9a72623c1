"""Section 3: completions that a hard or soft first token can start."""

from adaptlab.recipes.claim_builders import holds
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024.claim_builders import claim
from adaptlab.recipes.petrov2024.words import QUICK_WORDS, german, quick_translator, translator
from adaptlab.reproductions.claim import PaperClaim
from adaptlab.reproductions.recipe import RECIPES, Recipe
from adaptlab.studies.study import StudySpec

TOKENS, WORDS = "tokens", "words"
CHECK = "capacity"
ALPHABET = 510
"""With the task's two spare tokens, the vocabulary has 512."""
COPY: paper.Members = {"name": "copy", "length": 6, "alphabet": ALPHABET, "few_distinct": False}
"""Copying of six symbols: its context of twelve tokens holds completions of ten."""
SOFT = 48_218
"""Soft first tokens that the published notebook completes."""


@RECIPES.register("petrov2024/capacity")
def capacity() -> Recipe:
    """Return the recipe: greedy completions of ten tokens."""
    return Recipe(
        name="petrov2024/capacity",
        title="Completions of a hard or soft first token",
        question="How many more completions can a soft token start than a hard one?",
        source=f"{paper.SOURCE}, section 3 and published notebook",
        versions=paper.VERSIONS,
        stand_ins=dict.fromkeys(("quick", "faithful", "fair"), "small decoders trained here"),
        base_models=(TOKENS, WORDS),
        presets={
            "quick": _study(
                (_quick_tokens(), quick_translator("german", german(**QUICK_WORDS))),
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
            "quick": f"Two small models trained here: one that copies six of {ALPHABET} symbols, "
            "with 512 tokens, and a translator, with some 50 letters. The paper uses LLaMA-7B: "
            "24,426 completions of its 32,000 hard tokens, and 46,812 of 48,218 stored soft "
            "tokens, whose construction is not in the code. 2,048 soft tokens are drawn at random "
            "and 64 are searched for. The paper's models of digits have 11 tokens, too few for a "
            "count. On two cores, pretraining the first model with five seeds takes about 1.5 "
            "minutes, and the check half a minute per seed.",
            "faithful": "As many soft tokens as the paper's notebook completes, drawn at random, "
            "and 64 that are searched for. The models are the paper's translator and one that "
            "copies six of 510 symbols. LLaMA-7B is not included; users who have it can import it. "
            "For a GPU, because of the pretraining.",
            "fair": "The same with 4,096 soft tokens searched for in 500 steps each. For a GPU.",
        },
    )


def _claims() -> tuple[PaperClaim, ...]:
    return (
        claim(
            "soft-beats-hard",
            "A soft first token starts more completions than a hard one; hard tokens start at most "
            "as many as there are tokens.",
            holds(CHECK),
        ),
    )


def _paper_bases() -> tuple[paper.Members, ...]:
    return (_tokens(), translator("german", german()))


def _tokens() -> paper.Members:
    """Return a model of the paper's size that copies symbols."""
    return paper.base(
        "petrov2024-copy-512",
        {"layers": 4, "heads": 4, "width": 256, "dropout": 0.1},
        COPY,
        paper.constant(10_000, 5e-4),
        seeds=paper.SEEDS,
        scored=(COPY,),
        resources=paper.GPU,
    )


def _quick_tokens() -> paper.Members:
    """Return a model of two layers of width 64 that copies symbols.

    Each of five seeds copies 1,000 of 1,000 questions.
    """
    return paper.base(
        "petrov2024-copy-512-quick",
        {"layers": 2, "heads": 4, "width": 64},
        COPY,
        paper.quick_steps(600, learning_rate=3e-3),
        seeds=paper.SEEDS,
        scored=(COPY,),
        samples=1000,
    )


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
