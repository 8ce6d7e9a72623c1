"""Table 3: known skills, a combination of two, and a new task."""

from collections.abc import Sequence

from adaptlab.recipes.claim_builders import at_floor, at_least, at_most
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024 import small
from adaptlab.recipes.petrov2024.claim_builders import claim, learned_at_equal_size, no_new_task
from adaptlab.recipes.petrov2024.settings import Members
from adaptlab.recipes.petrov2024.tables import rows_on_new_tasks
from adaptlab.recipes.studies import study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import PaperClaim
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.studies.study import StudySpec

STUDY = "petrov2024-table-3"
BASE = "pretrained on four skills"
COMBINED, UNKNOWN = paper.NEW_LABELS
ROWS = 10
"""Rows of a prefix; they replace pads that were present in pretraining."""
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
    """Return the recipe: one prefix of 10,240 parameters per task."""
    return Recipe(
        name="petrov2024/table-3",
        title="Table 3: known skills, a combination of them, and a new task",
        question="Can a prefix teach a model with four skills to combine them, or a new task?",
        source=f"{paper.SOURCE}, table 3",
        versions=paper.VERSIONS,
        stand_ins={"quick": paper.QUICK_STAND_IN, "small": small.STAND_IN},
        base_models=("skills",),
        presets={
            "quick": _quick(),
            "small": small_study(STUDY, [small.base(2)]),
            "faithful": as_published(STUDY, [paper.skills_base()]),
            "fair": _fair(),
        },
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "The paper's four layers and four heads at width 64 instead of 256, so a "
            "prefix of 2,560 parameters instead of 10,240; questions of eight digits below six "
            "instead of ten below eight; no dropout; 32 items per step; fewer steps at higher "
            "rates on a cosine schedule. Prefixes are tuned over 4 learning rates from 3e-3 to 1, "
            "with three times the steps for new tasks. Controls that the paper lacks: full "
            "fine-tuning at two rates, a model from scratch at one, and LoRA on the MLP at the "
            "prefix's size and steps. About 21 minutes on two cores with 3 seeds.",
            "small": f"{small.NOTE}Two layers; prefixes of 40 rows, 5,120 parameters, as many as "
            "LoRA of rank 4 on the MLP. About 2 hours on two idle cores, by the cost model.",
            "faithful": "The paper's settings with its code's four layers (the text's 40 is a "
            "misprint): 40,000 steps for the base, 20,000 for prefixes of known skills and 500,000 "
            "for the others, at one constant rate, but 5 seeds instead of 3. 11 tokens instead of "
            "10, because ten equal digits need a count of 10. The histogram takes 500,000 steps, "
            "as in the paper: hours on a GPU.",
            "fair": "Equal steps and 8 learning rates for every method, selected on the validation "
            "split. Prefixes have rates from 5e-5, the paper's rate, to 0.5, and are started at 1, "
            "at 0.02 and, with three times the trials, at the best of three scales. Full "
            "fine-tuning and models from scratch show whether the new tasks can be learned at all; "
            "LoRA of rank 1 on the MLP has exactly the prefix's 10,240 parameters. 100,000 steps "
            "instead of the paper's 500,000 for new tasks. Hours on a GPU.",
        },
    )


def prefix_for(task: Members) -> str:
    """Return the label of the prefix for a task in the study."""
    return paper.PREFIX if task in paper.SKILLS else paper.LONGER


def as_published(name: str, bases: Sequence[Members]) -> StudySpec:
    """Return prefixes as published: 25 times longer for new tasks."""
    longer = paper.constant(500_000, 5e-5, 0.01)
    return study(
        name,
        bases=bases,
        tasks=paper.TASKS,
        methods=(
            paper.prefix(ROWS, tasks=paper.SKILLS),
            paper.prefix(ROWS, label=paper.LONGER, training=longer, tasks=paper.NEW),
        ),
        budget=10_240,
        resources=paper.GPU,
        training=paper.constant(20_000, 5e-5, 0.01),
    )


def small_study(name: str, bases: Sequence[Members]) -> StudySpec:
    """Return prefixes for all tasks, with controls for new tasks."""
    known, new = small.tasks(paper.SKILLS), small.tasks(paper.NEW)
    return study(
        name,
        bases=bases,
        tasks=(*known, *new),
        methods=(
            small.prefix(
                small.ROWS, label=paper.PREFIX, tasks=known, training=small.training(2000)
            ),
            small.prefix(small.ROWS, label=paper.LONGER, tasks=new),
            small.lora(paper.MLP_LORA, small.RANK, ("mlp",), tasks=new),
            small.full(tasks=new),
        ),
        budget=2 * small.ROWS * small.WIDTH,
        seeds=small.SEEDS,
        samples=1000,
        resources=small.RESOURCES,
        training=small.training(),
        tuning={"validation_samples": 640},
    )


def _table() -> PublishedTable:
    prefixes = zip(paper.TASK_LABELS, paper.TASKS, PUBLISHED, strict=True)
    controls = (paper.FULL, paper.SCRATCH, paper.MLP_LORA, paper.SMALL_START, paper.STARTS)
    return PublishedTable(
        title="Table 3",
        source=f"{paper.SOURCE}, table 3",
        seeds=3,
        columns=columns(paper.TASK_LABELS, paper.TASKS),
        rows=(
            row(BASE, 17, 23, 34, 25, 0, 0),
            *(
                row(f"prefix for {name}", *cells, of=prefix_for(task), task=task)
                for name, task, cells in prefixes
            ),
            *rows_on_new_tasks(controls),
        ),
    )


def _claims() -> tuple[PaperClaim, ...]:
    return (
        claim(
            "skills-are-called-up",
            "A prefix makes the model do any one of the tasks that it was pretrained on.",
            *(at_least(f"prefix for {name}", name, 0.9) for name in paper.SKILL_LABELS),
            given=[at_most(BASE, name, 0.7) for name in paper.SKILL_LABELS],
        ),
        claim(
            "skills-are-combined",
            "A prefix can teach a task that combines skills of the base model.",
            at_least(f"prefix for {COMBINED}", COMBINED, 0.7),
            given=[at_most(BASE, COMBINED, 0.05)],
        ),
        no_new_task(
            f"prefix for {UNKNOWN}",
            UNKNOWN,
            trials=paper.QUICK_RATES,
            base=BASE,
            controls=learned_at_equal_size(
                f"{paper.MLP_LORA} on {UNKNOWN}", f"prefix for {UNKNOWN}", UNKNOWN
            ),
        ),
        claim(
            "new-task-can-be-learned",
            "Full fine-tuning teaches this model the new task.",
            at_least(f"{paper.FULL} on {UNKNOWN}", UNKNOWN, 0.8),
            role="premise",
            given=[at_floor(BASE, UNKNOWN)],
        ),
    )


def _quick() -> StudySpec:
    known, new = paper.shorter(paper.SKILLS), paper.shorter(paper.NEW)
    alone = paper.one_rate({"steps": 2400, "learning_rate": 1e-3})
    return study(
        STUDY,
        bases=[paper.quick_skills_base()],
        tasks=(*known, *new),
        methods=(
            paper.prefix(ROWS, tuning=paper.QUICK_RANGE, tasks=known),
            paper.prefix(
                ROWS,
                label=paper.LONGER,
                training={"steps": 2400},
                tuning=paper.QUICK_RANGE,
                tasks=new,
            ),
            paper.full(**paper.QUICK_FULL, tasks=new),
            paper.scratch(**alone, tasks=new[1:]),
            paper.mlp_lora(tasks=new[1:], training={"steps": 2400}),
        ),
        budget=2560,
        samples=1000,
        training=paper.quick_steps(800),
        tuning=paper.rates(paper.QUICK_RATES),
    )


def _fair() -> StudySpec:
    wide: Members = {"trials": paper.RATES, **paper.WIDE}
    known = paper.prefix(ROWS, tuning=wide, training={"steps": 20_000}, tasks=paper.SKILLS)
    new = (
        paper.prefix(ROWS, label=paper.LONGER, tuning=wide),
        *paper.other_starts(ROWS, wide),
        paper.mlp_lora(),
        paper.full(),
        paper.scratch(),
    )
    return study(
        STUDY,
        bases=[paper.skills_base()],
        tasks=paper.TASKS,
        methods=(known, *paper.within(new, tasks=paper.NEW)),
        budget=10_240,
        resources=paper.GPU,
        training=paper.equal_steps(100_000),
        tuning=paper.rates(paper.RATES),
    )
