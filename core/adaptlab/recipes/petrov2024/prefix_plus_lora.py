"""A prefix together with LoRA, against each alone at the same size."""

from adaptlab.recipes.claim_builders import above, at_floor, at_least
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024.claim_builders import claim
from adaptlab.recipes.petrov2024.settings import Members
from adaptlab.recipes.petrov2024.tables import rows_on_new_tasks
from adaptlab.recipes.studies import study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import PaperClaim, PlainTest
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.studies.study import StudySpec

STUDY = "petrov2024-prefix-plus-lora"
BASE, BOTH = "pretrained on four skills", "prefix and LoRA"
COMBINED, UNKNOWN = paper.NEW_LABELS
ROWS, RANK = 20, 2
"""Sizes of each alone; together they have half of each, and as many parameters."""


@RECIPES.register("petrov2024/prefix-plus-lora")
def prefix_plus_lora() -> Recipe:
    """Return the recipe: ten rows and rank 1, against 20 rows and rank 2."""
    return Recipe(
        name="petrov2024/prefix-plus-lora",
        title="A prefix together with LoRA",
        question="Does a prefix add anything to LoRA at the same number of parameters?",
        source=f"{paper.SOURCE}: suggested by the authors in review",
        versions=paper.VERSIONS,
        stand_ins={"quick": paper.QUICK_STAND_IN},
        base_models=("skills",),
        presets={
            "quick": _quick(),
            "faithful": _thorough(),
            "fair": _thorough(),
        },
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "Table 3's quick base of width 64: 5,120 parameters each, 4 learning rates "
            "and equal steps. In the combination, both parts share one rate, drawn from the range "
            "between their own. About 20 minutes on two cores with 3 seeds.",
            "faithful": paper.NO_SUCH_RUN,
            "fair": "20,480 parameters each on the paper's four-layer model, equal steps and 8 "
            "learning rates for every method, selected on the validation split; full fine-tuning "
            "as a reference. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    methods = (paper.PREFIX, paper.MLP_LORA, BOTH, paper.FULL)
    return PublishedTable(
        title="Prefix and LoRA at equal size",
        source="not published",
        columns=columns(paper.NEW_LABELS, paper.NEW),
        rows=(row(BASE), *rows_on_new_tasks(methods)),
    )


def _claims() -> tuple[PaperClaim, ...]:
    words = (("combination", COMBINED), ("histogram", UNKNOWN))
    return (
        *(
            claim(
                f"lora-alone-is-better-on-the-{word}",
                f"On the {word}, LoRA with all parameters scores higher than LoRA "
                "with half of them and a prefix with the other half.",
                above(f"{paper.MLP_LORA} on {name}", f"{BOTH} on {name}", name, 0.01),
                role="own",
                given=[at_floor(BASE, name), *_learned(paper.MLP_LORA, name)],
            )
            for word, name in words
        ),
        claim(
            "a-prefix-gains-from-lora",
            "LoRA and a prefix with half of the parameters each score higher than a "
            "prefix with all of them.",
            above(f"{BOTH} on {UNKNOWN}", f"{paper.PREFIX} on {UNKNOWN}", UNKNOWN, 0.01),
            role="own",
            given=[at_floor(BASE, UNKNOWN), *_learned(BOTH, UNKNOWN)],
        ),
    )


def _learned(method: str, column: str) -> tuple[PlainTest, ...]:
    """Return the test that the method has learned the task."""
    return (at_least(f"{method} on {column}", column, 0.5),)


def _methods(range_of_prefix: Members, full: Members) -> tuple[Members, ...]:
    parts = (
        {"name": "prefix_tuning", "length": ROWS // 2},
        {"name": "lora", "rank": RANK // 2, "sites": ("mlp",)},
    )
    return (
        paper.prefix(ROWS, tuning=range_of_prefix),
        paper.mlp_lora(RANK),
        paper.method(BOTH, "combine", parts=parts),
        paper.full(**full),
    )


def _quick() -> StudySpec:
    return study(
        STUDY,
        bases=[paper.quick_skills_base()],
        tasks=paper.shorter(paper.NEW),
        methods=_methods(paper.QUICK_RANGE, paper.QUICK_FULL),
        budget=5120,
        samples=1000,
        training=paper.quick_steps(1600),
        tuning={"trials": paper.QUICK_RATES},
    )


def _thorough() -> StudySpec:
    return study(
        STUDY,
        bases=[paper.skills_base()],
        tasks=paper.NEW,
        methods=_methods(paper.WIDE, {}),
        budget=20_480,
        resources=paper.GPU,
        training=paper.equal_steps(50_000),
        tuning={"trials": paper.RATES},
    )
