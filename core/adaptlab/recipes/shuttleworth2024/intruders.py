"""Intruder dimensions of LoRA and full fine-tuning, and what is kept."""

from adaptlab.recipes.claim_builders import (
    at_least,
    at_most,
    check_above,
    claim,
    retains_more,
)
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024 import small
from adaptlab.recipes.petrov2024.forgetting import (
    BASE,
    NEW,
    OLD,
    POINT,
    SMALL_TASKS,
    equal_steps,
    shown_table,
    small_base,
)
from adaptlab.recipes.studies import Members, study
from adaptlab.reproductions.claim import CheckAbove, PaperClaim, PlainTest
from adaptlab.reproductions.recipe import RECIPES, Recipe
from adaptlab.studies.study import StudySpec

SOURCE = "Shuttleworth et al. (2024)"
VERSION = "arxiv"
RANKS = (1, 8, 64)
LORAS = tuple(f"LoRA of rank {rank}" for rank in RANKS)
LOW, HIGH = LORAS[:2], LORAS[2]
SITES = ("attn.q", "attn.k", "attn.v", "attn.o", "mlp")
CHECK, BY_REPLICATE = "intruder_dimensions", "intruders_by_replicate"
ONE = 1.0
SIZE = 2 * max(RANKS) * (4 * 2 + 2 * 5) * small.WIDTH
"""Parameters of the highest rank, at two layers of four square and two wide matrices."""


@RECIPES.register("shuttleworth2024/intruders")
def intruders() -> Recipe:
    """Return the recipe: singular vectors new to the base, and retention."""
    return Recipe(
        name="shuttleworth2024/intruders",
        title="Intruder dimensions of LoRA and full fine-tuning",
        question="Does LoRA have more intruder dimensions, and forget more, at equal scores?",
        source=f"{SOURCE}, sections 3 and 4",
        versions={VERSION: "arXiv 2410.21228"},
        stand_ins={"quick": small.STAND_IN},
        base_models=("skills",),
        presets={"quick": _quick()},
        tables=(shown_table(f"{SOURCE} has other data", (*LORAS, paper.FULL)),),
        claims=_claims(),
        notes={
            "quick": "The paper adapts RoBERTa and LLaMA. Here a decoder of two layers and width "
            "64 has four skills, each called up by a cue, and learns to sort downwards after a new "
            "one. LoRA is on all matrices with alpha twice the rank, of rank 1, 8 and 64, which is "
            "full. Intruders are counted among the first 10 left singular vectors of each of 12 "
            "matrices: those with a cosine below 0.5 to all of the base's. Every method has 600 "
            "steps at 4 constant rates, chosen by the new task alone. Not measured: forgetting by "
            "the number of intruders, and after shrinking them. About 20 minutes on two busy "
            "cores.",
        },
    )


def _quick() -> StudySpec:
    return study(
        "shuttleworth2024-intruders",
        bases=[small_base()],
        tasks=SMALL_TASKS[1:],
        methods=(
            *(_lora(label, rank) for label, rank in zip(LORAS, RANKS, strict=True)),
            small.full(),
        ),
        budget=SIZE,
        scored=SMALL_TASKS,
        samples=1000,
        training=equal_steps(),
        tuning={"validation_samples": 640},
        checks=tuple(map(_check, (*LORAS, paper.FULL))),
    )


def _check(method: str) -> Members:
    return {"name": CHECK, "label": f"intruders of {method}", "of": method}


def _lora(label: str, rank: int) -> Members:
    tuning: Members = {"learning_rates": [3e-4, 1e-3, 4e-3, 1.6e-2]}
    return paper.method(label, "lora", rank=rank, alpha=2.0 * rank, sites=SITES, tuning=tuning)


def _claims() -> tuple[PaperClaim, ...]:
    skilled, is_new = at_least(BASE, OLD, 0.9), at_most(BASE, NEW, 0.05)
    return (
        claim(
            VERSION,
            "base-has-the-skills",
            "After its cue, the base model does each old skill, and does not do the new task.",
            skilled,
            is_new,
            role="premise",
        ),
        claim(
            VERSION,
            "equal-scores",
            "All methods have learned the new task.",
            *_learned(*LORAS, paper.FULL),
            role="premise",
            given=[is_new],
        ),
        claim(
            VERSION,
            "lora-has-more-intruders",
            "LoRA of a low rank has more intruder dimensions than full fine-tuning.",
            *(_more(label, paper.FULL) for label in LOW),
            given=_learned(*LOW, paper.FULL),
        ),
        claim(
            VERSION,
            "a-low-rank-has-more-intruders",
            "LoRA of a low rank has more intruder dimensions than of a high one.",
            *(_more(label, HIGH) for label in LOW),
            given=_learned(*LORAS),
        ),
        claim(
            VERSION,
            "lora-forgets-more",
            "LoRA of a low rank retains less of the old skills than full fine-tuning.",
            *(retains_more(paper.FULL, label, OLD, POINT) for label in LOW),
            given=[skilled, *_learned(*LOW, paper.FULL)],
        ),
        claim(
            VERSION,
            "a-low-rank-forgets-more",
            "LoRA of a low rank retains less of the old skills than of a high one.",
            *(retains_more(HIGH, label, OLD, POINT) for label in LOW),
            given=[skilled, *_learned(*LORAS)],
        ),
    )


def _more(row: str, other: str) -> CheckAbove:
    return check_above(row, other, CHECK, BY_REPLICATE, ONE)


def _learned(*methods: str) -> tuple[PlainTest, ...]:
    """Return tests that methods score as well on the new task."""
    return tuple(at_least(label, NEW, 0.9) for label in methods)
