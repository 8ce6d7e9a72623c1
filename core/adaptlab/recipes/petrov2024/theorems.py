"""Theorems 1 and 2 as models that are built by formula and run."""

from typing import Literal

from adaptlab.recipes.claim_builders import holds
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024.claim_builders import claim
from adaptlab.reproductions.claim import PaperClaim
from adaptlab.reproductions.recipe import RECIPES, Recipe
from adaptlab.studies.study import StudySpec

CHECK = "theorems"
EXHAUSTIVE = "If there are few cases, all are run; otherwise random ones."


@RECIPES.register("petrov2024/theorems")
def theorems() -> Recipe:
    """Return the recipe: models by formula, run on all or random cases."""
    return Recipe(
        name="petrov2024/theorems",
        title="Theorems 1 and 2: virtual tokens that make a transformer compute any map",
        question="Do the transformers of the theorems compute what is claimed when they are run?",
        source=f"{paper.SOURCE}, section 3 and appendix A",
        versions=paper.VERSIONS,
        presets={"quick": _study("small"), "faithful": _study("full"), "fair": _study("full")},
        claims=(
            _claim(
                "any-sequence",
                "theorem-1-unconditional",
                "One virtual token makes a fixed transformer write any of V^N sequences.",
            ),
            _claim(
                "any-map",
                "theorem-2-conditional",
                "One virtual token makes a fixed transformer compute any of V^V maps of a token.",
            ),
            _claim(
                "any-longer-answer",
                "longer-answers",
                "With n_Y virtual tokens, a fixed transformer maps a token to n_Y tokens in any "
                "way.",
            ),
            _claim(
                "any-longer-question",
                "longer-questions",
                "One virtual token makes a fixed transformer compute any of V^(V²) maps of two "
                "tokens.",
            ),
            _claim(
                "soft-beats-hard",
                "soft-first-tokens-of-theorem-1",
                "Soft first tokens start V^N completions, and a hard first token starts one.",
            ),
        ),
        notes={
            "quick": f"{EXHAUSTIVE} Seconds on one core.",
            "faithful": "The paper's sizes too: V=94 with N=20 and n_Y=10, and V=10 for questions "
            "of two tokens. 200 random maps each, where the paper shows one. The unpacking is "
            "inside the network; in the paper's notebook it is outside. Less than two minutes on "
            "one core.",
            "fair": "The same as the faithful preset: nothing is tuned.",
        },
    )


def _study(effort: Literal["small", "full"]) -> StudySpec:
    return StudySpec.model_validate(
        {"name": "petrov2024-theorems", "checks": [{"name": CHECK, "effort": effort}]}
    )


def _claim(name: str, report: str, text: str) -> PaperClaim:
    return claim(name, text, holds(CHECK, report))
