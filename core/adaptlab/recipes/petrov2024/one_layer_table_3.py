"""Table 3 with one layer: requested in review, but not reported."""

from adaptlab.recipes.claim_builders import above, at_least, at_most
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024 import small
from adaptlab.recipes.petrov2024.claim_builders import claim, learned_at_equal_size, no_new_task
from adaptlab.recipes.petrov2024.settings import Members
from adaptlab.recipes.petrov2024.table_3 import ROWS, as_published, prefix_for, small_study
from adaptlab.recipes.petrov2024.tables import rows_on_new_tasks
from adaptlab.recipes.studies import study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import PaperClaim
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe, TableRow
from adaptlab.studies.study import StudySpec

NORMED, PLAIN = "with the norm", "without it"
STUDY = "petrov2024-one-layer-table-3"
BASE = "pretrained on four skills"
COMBINED, UNKNOWN = paper.NEW_LABELS


@RECIPES.register("petrov2024/one-layer-table-3")
def one_layer_table_3() -> Recipe:
    """Return the recipe: six tasks on one layer, with and without norm."""
    return Recipe(
        name="petrov2024/one-layer-table-3",
        title="Table 3 with one layer",
        question="Does a prefix need depth to combine skills?",
        source=f"{paper.SOURCE}: requested in review, answered with other runs",
        versions=paper.VERSIONS,
        base_models=(NORMED, PLAIN),
        presets={
            "quick": _quick(),
            "small": small_study(STUDY, [small.base(1, norm=norm) for norm in (True, False)]),
            "faithful": as_published(STUDY, _paper_bases()),
            "fair": _fair(),
        },
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "Width 64 instead of 256 and questions of eight digits below six. Two models, "
            "with the norm before attention as in table 3 and without it as in table 2, because "
            "the review does not specify it. Prefixes have 4 learning rates for known skills and 8 "
            "for new tasks. Full fine-tuning, at one rate, shows whether one layer can do the task "
            "at all, and LoRA on the MLP whether it can at the prefix's size. About 9 minutes on "
            "two cores with 3 seeds.",
            "small": f"{small.NOTE}One layer with and without the norm before attention; prefixes "
            "of 40 rows, 2,560 parameters, as many as LoRA of rank 4 on the MLP. About "
            "1.5 hours on two idle cores, by the cost model.",
            "faithful": "The published script's settings with one layer: 20,000 steps for known "
            "skills and 500,000 for new tasks, at one constant rate. The paper does not report "
            "this run. Hours on a GPU.",
            "fair": "Equal steps and 8 learning rates for every method, selected on the validation "
            "split, with full fine-tuning, models from scratch and LoRA on the MLP. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Table 3 with one layer",
        source="not published",
        columns=columns(paper.TASK_LABELS, paper.TASKS),
        rows=tuple(one for on in (NORMED, PLAIN) for one in _rows(on)),
    )


def _rows(on: str) -> tuple[TableRow, ...]:
    """Return the rows of one base model, named unless it is the first."""
    ending = "" if on == NORMED else f", {on}"
    return (
        row(f"{BASE}{ending}", on=on),
        *(
            row(f"prefix for {name}{ending}", of=prefix_for(task), on=on, task=task)
            for name, task in zip(paper.TASK_LABELS, paper.TASKS, strict=True)
        ),
        *rows_on_new_tasks((paper.FULL, paper.SCRATCH, paper.MLP_LORA), on, ending),
    )


def _claims() -> tuple[PaperClaim, ...]:
    return (
        claim(
            "skills-are-called-up",
            "A prefix makes a model of one layer do any one of its tasks.",
            *(at_least(f"prefix for {name}", name, 0.8) for name in paper.SKILL_LABELS),
            role="own",
            given=[at_most(BASE, name, 0.6) for name in paper.SKILL_LABELS],
        ),
        claim(
            "skills-are-combined",
            "A prefix can teach a model of one layer a combination of its skills, as it teaches a "
            "model of four layers in table 3.",
            at_least(f"prefix for {COMBINED}", COMBINED, 0.7),
            role="own",
            given=[at_most(BASE, COMBINED, 0.05)],
        ),
        claim(
            "one-layer-suffices-for-the-combination",
            "One layer can do the combination, so a failure is due to the prefix.",
            above(f"{paper.FULL} on {COMBINED}", f"prefix for {COMBINED}", COMBINED, 0.2),
            role="premise",
            given=[at_least(f"{paper.FULL} on {COMBINED}", COMBINED, 0.5)],
        ),
        no_new_task(
            f"prefix for {UNKNOWN}",
            UNKNOWN,
            trials=paper.RATES,
            base=BASE,
            role="own",
            controls=learned_at_equal_size(
                f"{paper.MLP_LORA} on {UNKNOWN}", f"prefix for {UNKNOWN}", UNKNOWN
            ),
        ),
    )


def _quick() -> StudySpec:
    known, new = paper.shorter(paper.SKILLS), paper.shorter(paper.NEW)
    wide: Members = {"trials": paper.RATES, **paper.QUICK_RANGE}
    single = paper.one_rate({"steps": 800, "learning_rate": 2e-3})
    return study(
        STUDY,
        bases=[paper.quick_skills_base(layers=1, norm=norm) for norm in (True, False)],
        tasks=(*known, *new),
        methods=(
            paper.prefix(ROWS, tuning=paper.QUICK_RANGE, tasks=known),
            paper.prefix(
                ROWS, label=paper.LONGER, training={"steps": 1600}, tuning=wide, tasks=new
            ),
            paper.full(**single, tasks=new),
            paper.mlp_lora(tasks=new[1:], training={"steps": 1600}),
        ),
        budget=640,
        samples=1000,
        training=paper.quick_steps(800),
        tuning=paper.rates(paper.QUICK_RATES),
    )


def _fair() -> StudySpec:
    known = paper.prefix(ROWS, tuning=paper.WIDE, training={"steps": 20_000}, tasks=paper.SKILLS)
    new = (
        paper.prefix(ROWS, label=paper.LONGER, tuning=paper.WIDE),
        paper.mlp_lora(),
        paper.full(),
        paper.scratch(),
    )
    return study(
        STUDY,
        bases=_paper_bases(),
        tasks=paper.TASKS,
        methods=(known, *paper.within(new, tasks=paper.NEW)),
        budget=10_240,
        resources=paper.GPU,
        training=paper.equal_steps(100_000),
        tuning=paper.rates(paper.RATES),
    )


def _paper_bases() -> list[Members]:
    return [paper.skills_base(layers=1, norm=norm) for norm in (True, False)]
