"""Table 3 with a single layer: the run that a reviewer asked for and that was not reported."""

from adaptlab.claim import Claim, EveryTrialAtMost
from adaptlab.recipe import RECIPES, PublishedTable, Recipe, TableRow
from adaptlab.recipes.petrov2024.settings import (
    FULL,
    GPU,
    LONGER,
    MLP_LORA,
    NEW,
    NEW_LABELS,
    PREFIX,
    PREFIX_RANGE,
    QUICK_RANGE,
    QUICK_RATES,
    RATES,
    SCRATCH,
    SKILL_LABELS,
    SKILLS,
    SOURCE,
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
    prefix,
    quick_skills_base,
    row,
    shorter,
    skills_base,
    study,
    within,
)
from adaptlab.study import StudySpec

NORMED, PLAIN = "with the norm", "without it"
COMBINED, UNKNOWN = NEW_LABELS
LABELS, TASKS = (*SKILL_LABELS, *NEW_LABELS), (*SKILLS, *NEW)
ROWS = 10


@RECIPES.register("petrov2024/one-layer-table-3")
def one_layer_table_3() -> Recipe:
    """Six tasks on models of one layer, with and without the norm before attention."""
    return Recipe(
        name="petrov2024/one-layer-table-3",
        title="Table 3 with one layer",
        question="Is it depth that lets a prefix combine skills?",
        source=f"{SOURCE}: asked for in review, answered by other runs",
        base_models=(NORMED, PLAIN),
        presets={"quick": _quick(), "faithful": _faithful(), "fair": _fair()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "Width 64 instead of 256 and questions of eight digits below six. Two models, "
            "with the norm before attention as in table 3 and without it as in table 2, as the "
            "review does not say which. Prefixes have 4 learning rates for known skills and 8 for "
            "new tasks. Full fine-tuning, at one rate, says whether one layer can do the task at "
            "all. About 8 minutes on two cores.",
            "faithful": "The published script's settings with one layer: 20,000 steps for known "
            "skills and 500,000 for new tasks, at one constant rate. The paper never reported this "
            "run. Hours on a GPU.",
            "fair": "Equal steps and 8 learning rates for every method, chosen on the validation "
            "split, with full fine-tuning, models from scratch and LoRA on the MLP. For a GPU.",
        },
    )


def _label_on(what: str, on: str) -> str:
    """A row's label, which says the base model where it is not the first."""
    return what if on == NORMED else f"{what}, {on}"


def _table() -> PublishedTable:
    return PublishedTable(
        title="Table 3 with one layer",
        source="not published",
        columns=columns(LABELS, TASKS),
        rows=tuple(one for on in (NORMED, PLAIN) for one in _rows(on)),
    )


def _rows(on: str) -> tuple[TableRow, ...]:
    new = tuple(zip(NEW_LABELS, NEW, strict=True))
    return (
        row(_label_on("pretrained on four skills", on), on=on),
        *(
            row(_label_on(f"prefix for {name}", on), of=_prefix_on(task), on=on, task=task)
            for name, task in zip(LABELS, TASKS, strict=True)
        ),
        *(
            row(_label_on(f"{label} on {name}", on), of=label, on=on, task=task)
            for label in (FULL, SCRATCH, MLP_LORA)
            for name, task in new
        ),
    )


def _prefix_on(task: Members) -> str:
    return PREFIX if task in SKILLS else LONGER


def _claims() -> tuple[Claim, ...]:
    return (
        claim(
            "skills-are-called-up",
            "A prefix makes a model of one layer do any one of its tasks.",
            *(at_least(f"prefix for {name}", name, 0.8) for name in SKILL_LABELS),
        ),
        claim(
            "skills-are-combined",
            "A prefix can teach a model of one layer a combination of its skills, as it does one "
            "of four layers in table 3.",
            at_least(f"prefix for {COMBINED}", COMBINED, 0.7),
        ),
        claim(
            "one-layer-suffices-for-the-combination",
            "Not claimed: one layer can do the combination, so that a failure is the prefix's.",
            above(f"{FULL} on {COMBINED}", f"prefix for {COMBINED}", COMBINED, 0.2),
        ),
        claim(
            "new-task-fails",
            "A prefix may not be able to teach a task that needs a new pattern of attention.",
            at_most(f"prefix for {UNKNOWN}", UNKNOWN, 0.05),
            arxiv_v1=(
                "A prefix cannot teach a task that needs a new pattern of attention.",
                (EveryTrialAtMost(row=f"prefix for {UNKNOWN}", value=0.05, trials=RATES),),
            ),
        ),
    )


def _quick() -> StudySpec:
    longer: Members = {"steps": 1600}
    new = within(
        (
            prefix(LONGER, ROWS, training=longer, tuning={"trials": RATES, **QUICK_RANGE}),
            method(FULL, "full_finetuning", **one_rate({"steps": 800, "learning_rate": 2e-3})),
        ),
        tasks=shorter(NEW),
    )
    return _study(
        (quick_skills_base(layers=1), quick_skills_base(layers=1, norm=False)),
        (prefix(PREFIX, ROWS, tuning=QUICK_RANGE, tasks=shorter(SKILLS)), *new),
        training={"steps": 800, "batch_size": 32, "validations": 5},
        tuning={"trials": QUICK_RATES, "validation_samples": 1280},
        tasks=shorter(TASKS),
        budget=640,
        samples=1000,
    )


def _faithful() -> StudySpec:
    longer = constant(500_000, 5e-5, 0.01)
    return _study(
        _paper_bases(),
        (prefix(PREFIX, ROWS, tasks=SKILLS), prefix(LONGER, ROWS, training=longer, tasks=NEW)),
        resources=GPU,
        training=constant(20_000, 5e-5, 0.01),
    )


def _fair() -> StudySpec:
    wide: Members = {"learning_rate_range": PREFIX_RANGE}
    new = within(
        (
            prefix(LONGER, ROWS, tuning=wide),
            mlp_lora(MLP_LORA),
            method(FULL, "full_finetuning"),
            method(SCRATCH, "from_scratch"),
        ),
        tasks=NEW,
    )
    known = prefix(PREFIX, ROWS, tuning=wide, training={"steps": 20_000}, tasks=SKILLS)
    return _study(
        _paper_bases(),
        (known, *new),
        resources=GPU,
        training={"steps": 100_000, "batch_size": 64},
        tuning={"trials": RATES, "validation_samples": 1280},
    )


def _paper_bases() -> tuple[Members, ...]:
    return (skills_base(layers=1), skills_base(layers=1, norm=False))


def _study(
    bases: tuple[Members, ...],
    methods: tuple[Members, ...],
    *,
    tasks: tuple[Members, ...] = TASKS,
    budget: int = 10_240,
    samples: int = 3200,
    **members: object,
) -> StudySpec:
    return study(
        "petrov2024-one-layer-table-3",
        bases=bases,
        tasks=tasks,
        methods=methods,
        budget=budget,
        seeds=3,
        scored=tasks,
        samples=samples,
        **members,
    )
