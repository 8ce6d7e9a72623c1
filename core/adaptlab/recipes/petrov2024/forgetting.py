"""Old skills, called up by cues, after a new cue: stated, not measured."""

from collections.abc import Sequence

from adaptlab.recipes.claim_builders import at_least, at_most, retains_more
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024 import small
from adaptlab.recipes.petrov2024.claim_builders import claim
from adaptlab.recipes.studies import Members, study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import PaperClaim, PlainTest
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.studies.study import StudySpec

STUDY = "petrov2024-forgetting"
BASE = "pretrained on four skills"
OLD, NEW = "four old skills", "descending, new cue"
METHODS = (paper.PREFIX, paper.MLP_LORA, paper.FULL)
SHOWN: tuple[Members, ...] = (
    {"name": "mixture"},
    {"name": "cued", "cue": paper.NEW_CUE, "task": {"name": "sort_descending"}},
)
TASKS = (paper.cued_skills(), paper.cued(paper.DOWN, paper.NEW_CUE))
SMALL_TASKS = (
    paper.cued_skills(small.tasks(paper.SKILLS)),
    paper.cued(small.task(paper.DOWN), paper.NEW_CUE),
)
HARDER = paper.cued(small.task(paper.UP_ADD_1), paper.NEW_CUE)
"""A task that is none of the skills, which the base is scored on too."""
LOST = 0.5
POINT = 0.01
STEPS = 600
SKILLED = at_least(BASE, OLD, 0.9)


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
        tables=(shown_table("not published", METHODS),),
        claims=_claims(),
        notes={
            "quick": "Every question has a cue. The base knows four skills by theirs; the new task "
            "is to sort downwards after a cue that it never saw, which asks for little, so that "
            "something can be kept: after sorting and adding 1, every method had lost everything. "
            "Retention is over items of all four skills with the adaptation attached: detached, "
            "prefix and LoRA leave the base unchanged. Two layers of width 64, questions of six "
            "digits below five; 5,120 parameters for prefix and LoRA. Every method has 600 steps "
            "at constant rates; 4 rates, the prefix 3 from two initial scales each. Task and steps "
            "were chosen by a pilot on two other seeds. About 15 minutes on two busy cores.",
            "faithful": paper.NO_SUCH_RUN,
            "fair": "The paper's four-layer model, equal steps and 8 learning rates for every "
            "method, selected on the validation split of the new task. For a GPU.",
        },
    )


def _claims() -> tuple[PaperClaim, ...]:
    return (
        claim(
            "base-has-the-skills",
            "After its cue, the base model does each old skill, and does not do the new task.",
            SKILLED,
            at_most(BASE, NEW, 0.05),
            role="premise",
        ),
        claim(
            "the-task-was-learned",
            "All three methods have learned the new task before their forgetting is compared.",
            *learned(*METHODS),
            role="premise",
            given=[at_most(BASE, NEW, 0.05)],
        ),
        claim(
            "prefix-forgets-less-than-lora",
            "A prefix retains more of the old skills than LoRA (stated in review).",
            retains_more(paper.PREFIX, paper.MLP_LORA, OLD, POINT),
            given=[SKILLED, *learned(paper.PREFIX, paper.MLP_LORA)],
        ),
        claim(
            "prefix-forgets-less-than-full-fine-tuning",
            "A prefix retains more of the old skills than full fine-tuning (stated in review).",
            retains_more(paper.PREFIX, paper.FULL, OLD, POINT),
            given=[SKILLED, *learned(paper.PREFIX, paper.FULL)],
        ),
        claim(
            "a-prefix-forgets-while-attached",
            "While attached, a prefix loses most of the old skills, cues or not.",
            at_most(paper.PREFIX, OLD, LOST),
            role="own",
            given=[SKILLED, *learned(paper.PREFIX)],
        ),
        claim(
            "full-fine-tuning-forgets-less-than-lora",
            "Full fine-tuning retains more of the old skills than LoRA on the MLP.",
            retains_more(paper.FULL, paper.MLP_LORA, OLD, POINT),
            role="own",
            given=[SKILLED, *learned(paper.FULL, paper.MLP_LORA)],
        ),
    )


def learned(*methods: str) -> tuple[PlainTest, ...]:
    """Return tests that the methods have learned the new task.

    An untrained method would forget the least.
    """
    return tuple(at_least(label, NEW, 0.5) for label in methods)


def shown_table(source: str, labels: Sequence[str]) -> PublishedTable:
    """Return the table of the base and of methods, old skills beside new cue."""
    return PublishedTable(
        title="Scores after learning to sort downwards after a new cue, attached",
        source=source,
        columns=columns((OLD, NEW), SHOWN),
        rows=(row(BASE), *(row(label, of=label) for label in labels)),
    )


def small_base() -> Members:
    """Return the small base model, whose four skills have a cue each."""
    return paper.with_cues(small.base(2), SMALL_TASKS[0], (*SMALL_TASKS, HARDER))


def equal_steps() -> Members:
    """Return training for equal steps at a constant rate."""
    return {
        "steps": STEPS,
        "batch_size": 32,
        "schedule": "constant",
        "warmup_fraction": 0.0,
        "validations": 5,
    }


def _quick() -> StudySpec:
    tuning: Members = {"learning_rates": [3e-3, 0.02, 0.15], "initial_scales": small.SCALES}
    prefix = paper.method(paper.PREFIX, "prefix_tuning", length=small.ROWS, tuning=tuning)
    return study(
        STUDY,
        bases=[small_base()],
        tasks=SMALL_TASKS[1:],
        methods=(prefix, small.lora(paper.MLP_LORA, small.RANK, ("mlp",)), small.full()),
        budget=2 * small.ROWS * small.WIDTH,
        scored=SMALL_TASKS,
        samples=1000,
        training=equal_steps(),
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
