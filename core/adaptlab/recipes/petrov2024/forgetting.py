"""Old skills after a new task: discussed in the paper, not measured."""

from adaptlab.recipes.claims import above, at_least, at_most
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024.claims import claim
from adaptlab.recipes.studies import study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import Claim, PlainTest
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.studies.study import StudySpec

STUDY = "petrov2024-forgetting"
BASE, NEW = "pretrained on four skills", "ascending, +1"
SCORED = (*paper.SKILLS, paper.UP_ADD_1)
METHODS = (paper.PREFIX, paper.MLP_LORA, paper.FULL)
ROWS = 10


@RECIPES.register("petrov2024/forgetting")
def forgetting() -> Recipe:
    """Return the recipe: a new task, then the scores on old skills."""
    return Recipe(
        name="petrov2024/forgetting",
        title="Forgetting of old skills",
        question="Does a prefix forget less than LoRA and full fine-tuning?",
        source=f"{paper.SOURCE}: stated in discussion and review, not measured",
        versions=paper.VERSIONS,
        base_models=("skills",),
        presets={"quick": _quick(), "faithful": _thorough(), "fair": _thorough()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "Table 3's quick base of width 64; 2,560 parameters for prefix and LoRA, 4 "
            "learning rates each. Scores are with the adaptation attached. Detached, a prefix and "
            "LoRA leave the base unchanged, as every job shows next to its attached scores. "
            "About 7 minutes on two cores with 3 seeds.",
            "faithful": paper.NO_SUCH_RUN,
            "fair": "The paper's four-layer model, equal steps and 8 learning rates for every "
            "method, selected on the validation split of the new task. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Scores after learning to sort and add 1, attached",
        source="not published",
        columns=columns((*paper.SKILL_LABELS, NEW), SCORED),
        rows=(row(BASE), *(row(label, of=label) for label in METHODS)),
    )


def _claims() -> tuple[Claim, ...]:
    return (
        claim(
            "all-forget-while-attached",
            "Not claimed: while attached, every adaptation silences the old skills, because no cue "
            "indicates which task is meant.",
            *(at_most(label, skill, 0.05) for label in METHODS for skill in paper.SKILL_LABELS),
            given=_learned(*METHODS),
        ),
        claim(
            "prefix-forgets-less-than-lora",
            "A prefix keeps more of the old skills than LoRA (stated in review).",
            *(above(paper.PREFIX, paper.MLP_LORA, skill, 0.01) for skill in paper.SKILL_LABELS),
            given=_learned(paper.PREFIX, paper.MLP_LORA),
        ),
        claim(
            "prefix-forgets-less-than-full-fine-tuning",
            "A prefix keeps more of the old skills than full fine-tuning (stated in review).",
            *(above(paper.PREFIX, paper.FULL, skill, 0.01) for skill in paper.SKILL_LABELS),
            given=_learned(paper.PREFIX, paper.FULL),
        ),
        claim(
            "the-task-was-learned",
            "Not claimed: all three methods have learned the new task before their forgetting is "
            "compared.",
            *_learned(*METHODS),
            given=[at_most(BASE, NEW, 0.05)],
        ),
    )


def _learned(*methods: str) -> tuple[PlainTest, ...]:
    """Return tests that the methods have learned the new task.

    An untrained method would forget the least.
    """
    return tuple(at_least(label, NEW, 0.5) for label in methods)


def _quick() -> StudySpec:
    scored = paper.shorter(SCORED)
    single = paper.one_rate({"steps": 800, "learning_rate": 2e-3})
    return study(
        STUDY,
        bases=[paper.quick_skills_base()],
        tasks=[scored[-1]],
        methods=(
            paper.prefix(ROWS, tuning=paper.QUICK_RANGE),
            paper.mlp_lora(),
            paper.full(**single),
        ),
        budget=2560,
        scored=scored,
        samples=1000,
        training=paper.quick_steps(1600),
        tuning={"trials": paper.QUICK_RATES},
    )


def _thorough() -> StudySpec:
    return study(
        STUDY,
        bases=[paper.skills_base()],
        tasks=[SCORED[-1]],
        methods=(paper.prefix(ROWS, tuning=paper.WIDE), paper.mlp_lora(), paper.full()),
        budget=10_240,
        scored=SCORED,
        resources=paper.GPU,
        training=paper.equal_steps(50_000),
        tuning={"trials": paper.RATES},
    )
