"""LoRA of three ranks against full fine-tuning: learned and forgotten."""

from adaptlab.recipes.claim_builders import above, at_least, at_most, claim, retains_more
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024 import small
from adaptlab.recipes.petrov2024.forgetting import (
    BASE,
    NEW,
    OLD,
    POINT,
    SMALL_TASKS,
    equal_steps,
    learned,
    shown_table,
    small_base,
)
from adaptlab.recipes.studies import study
from adaptlab.reproductions.claim import PaperClaim
from adaptlab.reproductions.recipe import RECIPES, Recipe
from adaptlab.studies.study import StudySpec

SOURCE = "Biderman et al. (TMLR 2024)"
VERSION = "tmlr"
RANKS = (1, 4, 16)
LORAS = tuple(f"LoRA of rank {rank}" for rank in RANKS)
LOWEST, _, HIGHEST = LORAS


@RECIPES.register("biderman2024/learns-less-forgets-less")
def learns_less() -> Recipe:
    """Return the recipe: a new task, then the scores on old skills."""
    return Recipe(
        name="biderman2024/learns-less-forgets-less",
        title="Learned and forgotten by LoRA and full fine-tuning",
        question="Does LoRA learn less than full fine-tuning, and forget less?",
        source=f"{SOURCE}, figures 1 to 3",
        versions={VERSION: "TMLR 2024"},
        stand_ins={"quick": small.STAND_IN},
        base_models=("skills",),
        presets={"quick": _quick()},
        tables=(shown_table(f"{SOURCE} has other data", (*LORAS, paper.FULL)),),
        claims=_claims(),
        notes={
            "quick": "The paper adapts models of 7B parameters to code and mathematics, and scores "
            "what they knew by common benchmarks. Here a decoder of two layers and width 64 has "
            "four skills, each called up by a cue, and learns a new cue for one of them: after a "
            "fifth skill, no method kept any. LoRA is on the MLP, of rank 1, 4 and 16; the paper's "
            "has ranks 16 to 256 on all matrices. Every method has 600 steps at 4 constant rates. "
            "About 10 minutes on two busy cores.",
        },
    )


def _quick() -> StudySpec:
    return study(
        "biderman2024-learns-less",
        bases=[small_base()],
        tasks=SMALL_TASKS[1:],
        methods=(
            *(small.lora(label, rank, ("mlp",)) for label, rank in zip(LORAS, RANKS, strict=True)),
            small.full(),
        ),
        budget=2 * 10 * max(RANKS) * small.WIDTH,
        scored=SMALL_TASKS,
        samples=1000,
        training=equal_steps(),
        tuning={"validation_samples": 640},
    )


def _claims() -> tuple[PaperClaim, ...]:
    skilled = at_least(BASE, OLD, 0.9)
    return (
        claim(
            VERSION,
            "base-has-the-skills",
            "After its cue, the base model does each old skill, and does not do the new task.",
            skilled,
            at_most(BASE, NEW, 0.05),
            role="premise",
        ),
        claim(
            VERSION,
            "lora-learns-less",
            "LoRA learns the new task less well than full fine-tuning.",
            *(above(paper.FULL, label, NEW, POINT) for label in LORAS),
            given=learned(paper.FULL),
        ),
        claim(
            VERSION,
            "lora-forgets-less",
            "LoRA retains more of the old skills than full fine-tuning.",
            *(retains_more(label, paper.FULL, OLD, POINT) for label in LORAS),
            given=[skilled, *learned(*LORAS, paper.FULL)],
        ),
        claim(
            VERSION,
            "a-higher-rank-learns-more",
            "LoRA of a higher rank learns more.",
            above(HIGHEST, LOWEST, NEW, POINT),
            given=learned(HIGHEST),
        ),
        claim(
            VERSION,
            "a-higher-rank-forgets-more",
            "LoRA of a higher rank retains less of the old skills.",
            retains_more(LOWEST, HIGHEST, OLD, POINT),
            given=[skilled, *learned(LOWEST, HIGHEST)],
        ),
    )
