"""Table 3: skills of the base model, a combination of two of them, and a task that is new."""

from adaptlab.claim import Claim, EveryTrialAtMost
from adaptlab.recipe import RECIPES, PublishedTable, Recipe, TableRow
from adaptlab.recipes.petrov2024.settings import (
    FULL,
    GPU,
    HISTOGRAM,
    INITIAL_SCALES,
    LONGER,
    MLP_LORA,
    NEW,
    NEW_LABELS,
    PREFIX,
    PREFIX_RANGE,
    QUICK_FULL,
    QUICK_RANGE,
    QUICK_RATES,
    RATES,
    SCRATCH,
    SKILL_LABELS,
    SKILLS,
    SMALL_START,
    SOURCE,
    STARTS,
    Members,
    at_least,
    at_most,
    claim,
    columns,
    constant,
    method,
    mlp_lora,
    one_rate,
    prefix,
    quick_skills_base,
    row,
    shorter,
    skills_base,
    study,
    within,
)
from adaptlab.study import StudySpec

BASE = "pretrained on four skills"
COMBINED, UNKNOWN = NEW_LABELS
LABELS, TASKS = (*SKILL_LABELS, *NEW_LABELS), (*SKILLS, *NEW)
ROWS = 10
"""Rows of a prefix; the pads whose place they take were there in pretraining."""
PUBLISHED = (
    (100, 0, 0, 0, 0, 0),
    (0, 100, 0, 0, 0, 0),
    (0, 0, 100, 0, 0, 0),
    (0, 0, 0, 100, 0, 0),
    (0, 0, 0, 0, 93, 0),
    (0, 0, 0, 0, 0, 1),
)


@RECIPES.register("petrov2024/table-3")
def table_3() -> Recipe:
    """One prefix of ten positions, 10,240 parameters, for each of six tasks."""
    return Recipe(
        name="petrov2024/table-3",
        title="Table 3: known skills, a combination of them, and a new task",
        question="What can a prefix teach a model that has four skills: to combine them, or more?",
        source=f"{SOURCE}, table 3",
        base_models=("skills",),
        presets={"quick": _quick(), "faithful": _faithful(), "fair": _fair()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "The paper's four layers and four heads at width 64 instead of 256, so a "
            "prefix of 2,560 parameters instead of 10,240; questions of eight digits below six "
            "instead of ten below eight; no dropout; 32 items a step; fewer steps at higher rates "
            "on a cosine schedule. Prefixes are tuned over 4 learning rates from 3e-3 to 1, with "
            "three times the steps for new tasks. Controls which the paper lacks: full fine-tuning "
            "at two rates, and a model from scratch at one. About 18 minutes on two cores.",
            "faithful": "The paper's settings with its code's four layers (the text's 40 is a "
            "misprint): 40,000 steps for the base, 20,000 for prefixes of known skills and 500,000 "
            "for the others, at one constant rate. 11 tokens instead of 10, because ten equal "
            "digits need a count of 10. The histogram took the paper half a million steps: hours "
            "on a GPU.",
            "fair": "Equal steps and 8 learning rates for every method, chosen on the validation "
            "split; prefixes from 5e-5, the paper's rate, to 0.5, started at 1 and at 0.02, and, "
            "with three times the trials, at whichever of three scales does best. Full fine-tuning "
            "and models from scratch say whether the new tasks can be learned at all; LoRA of rank "
            "1 on the MLP has exactly the prefix's 10,240 parameters. 100,000 steps instead of the "
            "paper's 500,000 for new tasks. Hours on a GPU.",
        },
    )


def table_rows(on: str | None = None, ending: str = "") -> tuple[TableRow, ...]:
    """The controls of new tasks, from the base model `on`."""
    controls = (FULL, SCRATCH, MLP_LORA, SMALL_START, STARTS)
    pairs = [(label, name, task) for label in controls for name, task in _new_tasks()]
    return tuple(
        row(f"{label} on {name}{ending}", of=label, on=on, task=task) for label, name, task in pairs
    )


def prefix_method(task: Members) -> str:
    """What the study calls the prefix for a task."""
    return PREFIX if task in SKILLS else LONGER


def _new_tasks() -> tuple[tuple[str, Members], ...]:
    return tuple(zip(NEW_LABELS, NEW, strict=True))


def _table() -> PublishedTable:
    prefixes = zip(LABELS, TASKS, PUBLISHED, strict=True)
    return PublishedTable(
        title="Table 3",
        source=f"{SOURCE}, table 3",
        seeds=3,
        columns=columns(LABELS, TASKS),
        rows=(
            row(BASE, 17, 23, 34, 25, 0, 0),
            *(
                row(f"prefix for {name}", *cells, of=prefix_method(task), task=task)
                for name, task, cells in prefixes
            ),
            *table_rows(),
        ),
    )


def _claims() -> tuple[Claim, ...]:
    return (
        claim(
            "skills-are-called-up",
            "A prefix makes the model do any one of the tasks that it was pretrained on.",
            *(at_least(f"prefix for {name}", name, 0.9) for name in SKILL_LABELS),
        ),
        claim(
            "skills-are-combined",
            "A prefix can teach a task that combines skills of the base model.",
            at_least(f"prefix for {COMBINED}", COMBINED, 0.7),
        ),
        claim(
            "new-task-fails",
            "A prefix may not be able to teach a task that needs a new pattern of attention.",
            at_most(f"prefix for {UNKNOWN}", UNKNOWN, 0.05),
            arxiv_v1=(
                "A prefix cannot teach a task that needs a new pattern of attention.",
                (EveryTrialAtMost(row=f"prefix for {UNKNOWN}", value=0.05, trials=QUICK_RATES),),
            ),
        ),
        claim(
            "new-task-can-be-learned",
            "Not tested in the paper: full fine-tuning teaches this model the new task.",
            at_least(f"{FULL} on {UNKNOWN}", UNKNOWN, 0.8),
        ),
    )


def _quick() -> StudySpec:
    alone = one_rate({"steps": 2400, "learning_rate": 1e-3})
    new = (
        prefix(LONGER, ROWS, training={"steps": 2400}, tuning=QUICK_RANGE, tasks=shorter(NEW)),
        method(FULL, "full_finetuning", **QUICK_FULL, tasks=shorter(NEW)),
        method(SCRATCH, "from_scratch", **alone, tasks=shorter([HISTOGRAM])),
    )
    return _study(
        quick_skills_base(),
        (prefix(PREFIX, ROWS, tuning=QUICK_RANGE, tasks=shorter(SKILLS)), *new),
        tasks=shorter(TASKS),
        training={"steps": 800, "batch_size": 32, "validations": 5},
        tuning={"trials": QUICK_RATES, "validation_samples": 1280},
        budget=2560,
        samples=1000,
    )


def _faithful() -> StudySpec:
    longer = constant(500_000, 5e-5, 0.01)
    return _study(
        skills_base(),
        (
            prefix(PREFIX, ROWS, tasks=SKILLS),
            prefix(LONGER, ROWS, training=longer, tasks=NEW),
        ),
        resources=GPU,
        training=constant(20_000, 5e-5, 0.01),
    )


def _fair() -> StudySpec:
    wide: Members = {"trials": RATES, "learning_rate_range": PREFIX_RANGE}
    scales = {**wide, "trials": 3 * RATES, "initial_scales": INITIAL_SCALES}
    new = within(
        (
            prefix(LONGER, ROWS, tuning=wide),
            prefix(SMALL_START, ROWS, start=0.02, tuning=wide),
            prefix(STARTS, ROWS, tuning=scales),
            mlp_lora(MLP_LORA),
            method(FULL, "full_finetuning"),
            method(SCRATCH, "from_scratch"),
        ),
        tasks=NEW,
    )
    return _study(
        skills_base(),
        (prefix(PREFIX, ROWS, tuning=wide, training={"steps": 20_000}, tasks=SKILLS), *new),
        resources=GPU,
        training={"steps": 100_000, "batch_size": 64},
        tuning={"trials": RATES, "validation_samples": 1280},
    )


def _study(
    skilled: Members,
    methods: tuple[Members, ...],
    *,
    tasks: tuple[Members, ...] = TASKS,
    budget: int = 10_240,
    samples: int = 3200,
    **members: object,
) -> StudySpec:
    return study(
        "petrov2024-table-3",
        bases=[skilled],
        tasks=tasks,
        methods=methods,
        budget=budget,
        seeds=3,
        scored=tasks,
        samples=samples,
        **members,
    )
