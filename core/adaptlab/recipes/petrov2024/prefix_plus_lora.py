"""A prefix together with LoRA, against either alone at the same size."""

from adaptlab.claim import Claim
from adaptlab.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.recipes.petrov2024.settings import (
    FULL,
    GPU,
    MLP_LORA,
    NEW,
    NEW_LABELS,
    PREFIX,
    PREFIX_RANGE,
    QUICK_FULL,
    QUICK_RANGE,
    QUICK_RATES,
    RATES,
    SOURCE,
    Members,
    above,
    claim,
    columns,
    method,
    mlp_lora,
    prefix,
    quick_skills_base,
    row,
    shorter,
    skills_base,
    study,
)
from adaptlab.study import StudySpec

BOTH = "prefix and LoRA"
COMBINED, UNKNOWN = NEW_LABELS
ROWS, RANK = 20, 2
"""Of either alone; together they have half of each, and as many parameters."""


@RECIPES.register("petrov2024/prefix-plus-lora")
def prefix_plus_lora() -> Recipe:
    """Ten rows of prefix with rank 1 on the MLP, against 20 rows and against rank 2."""
    return Recipe(
        name="petrov2024/prefix-plus-lora",
        title="A prefix together with LoRA",
        question="Does a prefix add anything to LoRA at the same number of parameters?",
        source=f"{SOURCE}: a direction that the authors name in review",
        base_models=("skills",),
        presets={"quick": _quick(), "faithful": _thorough(RATES), "fair": _thorough(RATES)},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "Table 3's quick base of width 64: 5,120 parameters each, 4 learning rates "
            "and equal steps. Together, both parts have one rate, drawn from the range between "
            "their own. About 20 minutes on two cores.",
            "faithful": "The paper has no such run, so there are no settings to follow: the same "
            "as the fair preset, on the paper's four-layer model. For a GPU.",
            "fair": "20,480 parameters each, equal steps and 8 learning rates for every method, "
            "chosen on the validation split; full fine-tuning as a reference. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    methods = (PREFIX, MLP_LORA, BOTH, FULL)
    pairs = [(label, name, task) for label in methods for name, task in _tasks()]
    return PublishedTable(
        title="Prefix and LoRA at equal size",
        source="not published",
        columns=columns(NEW_LABELS, NEW),
        rows=tuple(row(f"{label} on {name}", of=label, task=task) for label, name, task in pairs),
    )


def _tasks() -> tuple[tuple[str, Members], ...]:
    return tuple(zip(NEW_LABELS, NEW, strict=True))


def _claims() -> tuple[Claim, ...]:
    words = (("combination", COMBINED), ("histogram", UNKNOWN))
    return (
        *(
            claim(
                f"lora-alone-is-better-on-the-{word}",
                f"Not claimed: on the {word}, all parameters in LoRA score higher than half of "
                "them in a prefix.",
                above(f"{MLP_LORA} on {name}", f"{BOTH} on {name}", name, 0.01),
            )
            for word, name in words
        ),
        claim(
            "a-prefix-gains-from-lora",
            "Not claimed: half of the parameters in LoRA score higher than all in a prefix.",
            above(f"{BOTH} on {UNKNOWN}", f"{PREFIX} on {UNKNOWN}", UNKNOWN, 0.01),
        ),
    )


def _methods(range_of_prefix: Members, full: Members) -> tuple[Members, ...]:
    parts = (
        {"name": "prefix_tuning", "length": ROWS // 2},
        {"name": "lora", "rank": RANK // 2, "sites": ("mlp",)},
    )
    return (
        prefix(PREFIX, ROWS, tuning=range_of_prefix),
        mlp_lora(MLP_LORA, RANK),
        method(BOTH, "combine", parts=parts),
        method(FULL, "full_finetuning", **full),
    )


def _quick() -> StudySpec:
    return _study(
        quick_skills_base(),
        _methods(QUICK_RANGE, QUICK_FULL),
        training={"steps": 1600, "batch_size": 32, "validations": 5},
        tuning={"trials": QUICK_RATES},
        tasks=shorter(NEW),
        budget=5120,
        samples=1000,
    )


def _thorough(rates: int) -> StudySpec:
    return _study(
        skills_base(),
        _methods({"learning_rate_range": PREFIX_RANGE}, {}),
        resources=GPU,
        training={"steps": 50_000, "batch_size": 64},
        tuning={"trials": rates},
    )


def _study(
    skilled: Members,
    methods: tuple[Members, ...],
    *,
    tasks: tuple[Members, ...] = NEW,
    budget: int = 20_480,
    samples: int = 3200,
    **members: object,
) -> StudySpec:
    return study(
        "petrov2024-prefix-plus-lora",
        bases=[skilled],
        tasks=tasks,
        methods=methods,
        budget=budget,
        seeds=3,
        scored=tasks,
        samples=samples,
        **members,
    )
