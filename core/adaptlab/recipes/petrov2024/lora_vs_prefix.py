"""Rank-1 LoRA against a prefix of the same size, on a task that is new to the base model."""

from adaptlab.claim import Claim, EveryTrialAtMost
from adaptlab.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.recipes.petrov2024.settings import (
    FULL,
    GPU,
    HISTOGRAM,
    INITIAL_SCALES,
    LORA,
    MLP_LORA,
    PREFIX,
    PREFIX_RANGE,
    QUICK_FULL,
    QUICK_RANGE,
    QUICK_RATES,
    RATES,
    SCRATCH,
    SMALL_START,
    SOURCE,
    STARTS,
    Members,
    above,
    at_least,
    at_most,
    claim,
    columns,
    constant,
    method,
    mlp_lora,
    one_rate,
    paper_lora,
    prefix,
    quick_skills_base,
    row,
    shorter,
    skills_base,
    study,
)
from adaptlab.study import StudySpec

COUNT = "histogram"
SHORTER = "prefix-tuning as large as LoRA on the MLP"
ROWS, FEWER = 12, 10
"""Rows as large as rank 1 on MLP and attention's output, and as rank 1 on the MLP alone."""


@RECIPES.register("petrov2024/lora-vs-prefix")
def lora_vs_prefix() -> Recipe:
    """The histogram by LoRA and by a prefix, of 12,288 parameters each."""
    return Recipe(
        name="petrov2024/lora-vs-prefix",
        title="LoRA against a prefix at equal size, on a new task",
        question="Is it the number of parameters or their place that a prefix fails by?",
        source=f"{SOURCE}, section 5.2, and the published notebook 04",
        base_models=("skills",),
        presets={"quick": _quick(), "faithful": _faithful(), "fair": _fair()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "The base of table 3's quick preset: four layers of width 64 instead of 256, "
            "questions of eight digits below six, and so 3,072 parameters for LoRA and prefix "
            "instead of 12,288. Both have 4 learning rates and equal steps, unlike in the paper, "
            "where the prefix had ten times the steps at a hundredth of the rate. Full fine-tuning "
            "has two rates and a model from scratch one. About 20 minutes on two cores.",
            "faithful": "The paper's settings, in three seeds where it has one: LoRA 10,000 steps "
            "at 5e-3, the prefix 100,000 at 5e-5. LoRA is on the MLP and, as in the published "
            "code though not in its text, on what attention puts out. Gradients are clipped by "
            "their norm over all LoRA matrices, and not of each of them. For a GPU.",
            "fair": "Equal steps, 20,000, and 8 learning rates for every method, chosen on the "
            "validation split. Beside the paper's two: LoRA on the MLP alone and a prefix of "
            "exactly its 10,240 parameters, prefixes started at 0.02 and at whichever of three "
            "scales does best (with three times the trials), full fine-tuning and a model from "
            "scratch. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    controls = (MLP_LORA, SHORTER, FULL, SCRATCH, SMALL_START, STARTS)
    return PublishedTable(
        title="LoRA and prefix at 12,288 parameters",
        source=f"{SOURCE}, published notebook 04",
        seeds=1,
        columns=columns((COUNT,), (HISTOGRAM,)),
        rows=(
            row("pretrained on four skills", 0),
            row(LORA, 92.38, of=LORA),
            row(PREFIX, 0.31, of=PREFIX),
            *(row(label, of=label) for label in controls),
        ),
    )


def _claims() -> tuple[Claim, ...]:
    return (
        claim(
            "lora-learns",
            "Rank-1 LoRA learns the new task.",
            at_least(LORA, COUNT, 0.8),
        ),
        claim(
            "prefix-fails",
            "A prefix with as many parameters may not be able to learn it.",
            at_most(PREFIX, COUNT, 0.05),
            arxiv_v1=(
                "A prefix with as many parameters cannot learn it.",
                (EveryTrialAtMost(row=PREFIX, value=0.05, trials=QUICK_RATES),),
            ),
        ),
        claim(
            "size-is-not-the-cause",
            "At equal size LoRA learns what a prefix does not.",
            above(LORA, PREFIX, COUNT, 0.5),
        ),
        claim(
            "mlp-alone-suffices",
            "LoRA on the MLP alone, as the text has it, learns what a prefix of its size does not.",
            above(MLP_LORA, SHORTER, COUNT, 0.5),
        ),
    )


def _quick() -> StudySpec:
    alone = one_rate({"steps": 2400, "learning_rate": 1e-3})
    return _study(
        quick_skills_base(),
        (
            paper_lora(LORA),
            prefix(PREFIX, ROWS, tuning=QUICK_RANGE),
            mlp_lora(MLP_LORA),
            prefix(SHORTER, FEWER, tuning=QUICK_RANGE),
            method(FULL, "full_finetuning", **QUICK_FULL),
            method(SCRATCH, "from_scratch", **alone),
        ),
        training={"steps": 2400, "batch_size": 32, "validations": 5},
        tuning={"trials": QUICK_RATES, "validation_samples": 1280},
        tasks=shorter([HISTOGRAM]),
        budget=3072,
        samples=1000,
    )


def _faithful() -> StudySpec:
    return _study(
        skills_base(pads=ROWS),
        (paper_lora(LORA), prefix(PREFIX, ROWS, training=constant(100_000, 5e-5, 0.01))),
        resources=GPU,
        training=constant(10_000, 5e-3, 0.01),
    )


def _fair() -> StudySpec:
    wide: Members = {"learning_rate_range": PREFIX_RANGE}
    scales = {**wide, "trials": 3 * RATES, "initial_scales": INITIAL_SCALES}
    return _study(
        skills_base(pads=ROWS),
        (
            paper_lora(LORA),
            prefix(PREFIX, ROWS, tuning=wide),
            mlp_lora(MLP_LORA),
            prefix(SHORTER, FEWER, tuning=wide),
            prefix(SMALL_START, ROWS, start=0.02, tuning=wide),
            prefix(STARTS, ROWS, tuning=scales),
            method(FULL, "full_finetuning"),
            method(SCRATCH, "from_scratch"),
        ),
        resources=GPU,
        training={"steps": 20_000, "batch_size": 64},
        tuning={"trials": RATES, "validation_samples": 1280},
    )


def _study(
    skilled: Members,
    methods: tuple[Members, ...],
    *,
    tasks: tuple[Members, ...] = (HISTOGRAM,),
    budget: int = 12_288,
    samples: int = 3200,
    **members: object,
) -> StudySpec:
    return study(
        "petrov2024-lora-vs-prefix",
        bases=[skilled],
        tasks=tasks,
        methods=methods,
        budget=budget,
        seeds=3,
        scored=tasks,
        samples=samples,
        **members,
    )
