"""What is left of old skills after a new task: in the paper's discussion, and never measured."""

from adaptlab.claim import Claim
from adaptlab.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.recipes.petrov2024.settings import (
    FULL,
    GPU,
    MLP_LORA,
    PREFIX,
    PREFIX_RANGE,
    QUICK_RANGE,
    QUICK_RATES,
    RATES,
    SKILL_LABELS,
    SKILLS,
    SOURCE,
    UP_ADD_1,
    Members,
    above,
    at_least,
    at_most,
    claim,
    columns,
    method,
    mlp_lora,
    one_rate,
    prefix,
    quick_skills_base,
    row,
    shorter,
    skills_base,
    study,
)
from adaptlab.study import StudySpec

BASE, NEW = "pretrained on four skills", "ascending, +1"
SCORED = (*SKILLS, UP_ADD_1)
METHODS = (PREFIX, MLP_LORA, FULL)
ROWS = 10


@RECIPES.register("petrov2024/forgetting")
def forgetting() -> Recipe:
    """A combination of two skills by three methods, and the scores on all skills afterwards."""
    return Recipe(
        name="petrov2024/forgetting",
        title="What is left of old skills",
        question="Does a prefix forget less than LoRA and full fine-tuning?",
        source=f"{SOURCE}: said in discussion and review, not measured",
        base_models=("skills",),
        presets={"quick": _quick(), "faithful": _thorough(), "fair": _thorough()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "Table 3's quick base of width 64; 2,560 parameters for prefix and LoRA, 4 "
            "learning rates each. Scores are with the adaptation attached. Taken off, a prefix and "
            "LoRA leave the base as it was, which every job shows beside its attached scores. "
            "About 7 minutes on two cores.",
            "faithful": "The paper has no such run: the same as the fair preset. For a GPU.",
            "fair": "The paper's four-layer model, equal steps and 8 learning rates for every "
            "method, chosen on the validation split of the new task. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Scores after learning to sort and add 1, attached",
        source="not published",
        columns=columns((*SKILL_LABELS, NEW), SCORED),
        rows=(row(BASE), *(row(label, of=label) for label in METHODS)),
    )


def _claims() -> tuple[Claim, ...]:
    return (
        claim(
            "all-forget-while-attached",
            "Not claimed: attached, whatever was learned silences the old skills, as no cue says "
            "which task is meant.",
            *(at_most(label, skill, 0.05) for label in METHODS for skill in SKILL_LABELS),
        ),
        claim(
            "prefix-forgets-less-than-lora",
            "A prefix keeps more of the old skills than LoRA (said in review).",
            *(above(PREFIX, MLP_LORA, skill, 0.01) for skill in SKILL_LABELS),
        ),
        claim(
            "prefix-forgets-less-than-full-fine-tuning",
            "A prefix keeps more of the old skills than full fine-tuning (said in review).",
            *(above(PREFIX, FULL, skill, 0.01) for skill in SKILL_LABELS),
        ),
        claim(
            "the-task-was-learned",
            "Not claimed: the three are compared after learning the task, without which there is "
            "nothing to forget for.",
            *(at_least(label, NEW, 0.5) for label in METHODS),
        ),
    )


def _quick() -> StudySpec:
    return _study(
        quick_skills_base(),
        QUICK_RANGE,
        one_rate({"steps": 800, "learning_rate": 2e-3}),
        training={"steps": 1600, "batch_size": 32, "validations": 5},
        tuning={"trials": QUICK_RATES},
        scored=shorter(SCORED),
        budget=2560,
        samples=1000,
    )


def _thorough() -> StudySpec:
    return _study(
        skills_base(),
        {"learning_rate_range": PREFIX_RANGE},
        {},
        resources=GPU,
        training={"steps": 50_000, "batch_size": 64},
        tuning={"trials": RATES},
    )


def _study(
    skilled: Members,
    range_of_prefix: Members,
    full: Members,
    *,
    scored: tuple[Members, ...] = SCORED,
    budget: int = 10_240,
    samples: int = 3200,
    **members: object,
) -> StudySpec:
    return study(
        "petrov2024-forgetting",
        bases=[skilled],
        tasks=[scored[-1]],
        methods=[
            prefix(PREFIX, ROWS, tuning=range_of_prefix),
            mlp_lora(MLP_LORA),
            method(FULL, "full_finetuning", **full),
        ],
        budget=budget,
        seeds=3,
        scored=scored,
        samples=samples,
        **members,
    )
