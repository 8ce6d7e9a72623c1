"""Old skills, called up by cues, after a new task: stated, not measured."""

from adaptlab.recipes.claim_builders import above, at_least, at_most
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024 import small
from adaptlab.recipes.petrov2024.claim_builders import claim
from adaptlab.recipes.studies import study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import PaperClaim, PlainTest
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.studies.study import StudySpec

STUDY = "petrov2024-forgetting"
BASE = "pretrained on four skills"
OLD, NEW = "four old skills", "ascending, +1"
METHODS = (paper.PREFIX, paper.MLP_LORA, paper.FULL)
TASKS = (paper.cued_skills(), paper.cued(paper.UP_ADD_1, paper.NEW_CUE))
SMALL_TASKS = (
    paper.cued_skills(small.tasks(paper.SKILLS)),
    paper.cued(small.task(paper.UP_ADD_1), paper.NEW_CUE),
)
LOST = 0.5


@RECIPES.register("petrov2024/forgetting")
def forgetting() -> Recipe:
    """Return the recipe: a new task, then the scores on old skills."""
    return Recipe(
        name="petrov2024/forgetting",
        title="Forgetting of old skills",
        question="Does a prefix forget less than LoRA and full fine-tuning?",
        source=f"{paper.SOURCE}: stated in discussion and review, not measured",
        versions=paper.VERSIONS,
        stand_ins={"quick": small.STAND_IN},
        base_models=("skills",),
        presets={"quick": _quick(), "faithful": _thorough(), "fair": _thorough()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "Every question has a cue, so that a model which still has an old skill can "
            "show it; the new task has a cue that the base never saw. The score on old skills is "
            "over items of all four, with the adaptation attached: detached, prefix and LoRA leave "
            "the base unchanged. Two layers of width 64, questions of six digits below five; 5,120 "
            "parameters for prefix and LoRA. Every method tries 4 rates, the prefix each from two "
            "initial scales, constant until the validation loss has not improved for 2,400 steps, "
            "and for at most 8,000 steps. About 20 minutes on two busy cores.",
            "faithful": paper.NO_SUCH_RUN,
            "fair": "The paper's four-layer model, equal steps and 8 learning rates for every "
            "method, selected on the validation split of the new task. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Scores after learning to sort and add 1, attached",
        source="not published",
        columns=columns((OLD, NEW), ({"name": "mixture"}, {"name": "cued", "cue": paper.NEW_CUE})),
        rows=(row(BASE), *(row(label, of=label) for label in METHODS)),
    )


def _claims() -> tuple[PaperClaim, ...]:
    return (
        claim(
            "base-has-the-skills",
            "After its cue, the base model does each old skill, and does not do the new task.",
            at_least(BASE, OLD, 0.9),
            at_most(BASE, NEW, 0.05),
            role="premise",
        ),
        claim(
            "the-task-was-learned",
            "All three methods have learned the new task before their forgetting is compared.",
            *_learned(*METHODS),
            role="premise",
            given=[at_most(BASE, NEW, 0.05)],
        ),
        claim(
            "prefix-forgets-less-than-lora",
            "A prefix keeps more of the old skills than LoRA (stated in review).",
            above(paper.PREFIX, paper.MLP_LORA, OLD, 0.01),
            given=_learned(paper.PREFIX, paper.MLP_LORA),
        ),
        claim(
            "prefix-forgets-less-than-full-fine-tuning",
            "A prefix keeps more of the old skills than full fine-tuning (stated in review).",
            above(paper.PREFIX, paper.FULL, OLD, 0.01),
            given=_learned(paper.PREFIX, paper.FULL),
        ),
        claim(
            "all-forget-while-attached",
            "While attached, every adaptation loses most of the old skills, cues or not.",
            *(at_most(label, OLD, LOST) for label in METHODS),
            role="own",
            given=[at_least(BASE, OLD, 0.9), *_learned(*METHODS)],
        ),
    )


def _learned(*methods: str) -> tuple[PlainTest, ...]:
    """Return tests that the methods have learned the new task.

    An untrained method would forget the least.
    """
    return tuple(at_least(label, NEW, 0.5) for label in methods)


def _quick() -> StudySpec:
    return study(
        STUDY,
        bases=[paper.with_cues(small.base(2), SMALL_TASKS[0], SMALL_TASKS)],
        tasks=SMALL_TASKS[1:],
        methods=(
            small.prefix(small.ROWS, label=paper.PREFIX),
            small.lora(paper.MLP_LORA, small.RANK, ("mlp",)),
            small.full(),
        ),
        budget=2 * small.ROWS * small.WIDTH,
        scored=SMALL_TASKS,
        samples=1000,
        training=small.training(),
        tuning={"validation_samples": 640},
    )


def _thorough() -> StudySpec:
    return study(
        STUDY,
        bases=[paper.with_cues(paper.skills_base(), TASKS[0], TASKS)],
        tasks=TASKS[1:],
        methods=(paper.prefix(10, tuning=paper.WIDE), paper.mlp_lora(), paper.full()),
        budget=10_240,
        scored=TASKS,
        resources=paper.GPU,
        training=paper.equal_steps(50_000),
        tuning={"trials": paper.RATES},
    )
