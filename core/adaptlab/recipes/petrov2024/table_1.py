"""Table 1: a new task, with a control that pins the attention."""

from adaptlab.recipes.claim_builders import above, at_least, at_most
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024.claim_builders import claim, never
from adaptlab.recipes.petrov2024.settings import Members
from adaptlab.recipes.studies import study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import DeviationAtLeast, DeviationAtMost, PaperClaim
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe, score
from adaptlab.studies.study import StudySpec

STUDY = "petrov2024-table-1"
UP, DOWN = paper.ORDERS
BASE, SOFT, BIAS = "pretrained on ascending", "soft prompt", "attention bias"
SEEDS = 10
FIGURE_1: Members = {"attention": {"inputs": [[2, 6, 0, 1, 4, 6, 3, 0, 1, 2]]}}
"""The input whose attention figure 1 shows."""


@RECIPES.register("petrov2024/table-1")
def table_1() -> Recipe:
    """Return the recipe: sorting downwards by a prefix of 96 parameters."""
    return Recipe(
        name="petrov2024/table-1",
        title="Table 1: a new task, said to need a new attention pattern",
        question="Can a prefix teach a model that sorts upwards to sort downwards?",
        source=f"{paper.SOURCE}, table 1 and figure 1",
        versions=paper.VERSIONS,
        base_models=(UP,),
        presets={"quick": _quick(), "faithful": _faithful(), "fair": _fair()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "The paper's model, task and prefix, with shorter training at higher rates "
            "on a cosine schedule and no dropout; steps of base, full fine-tuning and prefix are "
            "still 2 to 1 to 4. The prefix is tuned over 8 learning rates from 5e-4, the paper's "
            "rate, to 0.5. As a control, all weights are fine-tuned that leave the first layer's "
            "attention unchanged, with the steps and rate at which this was first seen to sort "
            "downwards. About 5 minutes on two cores with 10 seeds, without this control.",
            "faithful": "The paper's settings: its steps, constant rates and initial scale, "
            "dropout while all weights are trained, one rate per method. Unlike in the published "
            "code, the split of the inputs is a stable hash and the test items are the same for "
            "every seed. For a GPU.",
            "fair": "Equal steps and 8 learning rates for every method, each in its own range and "
            "selected on the validation split. In addition to the paper's rows: the same model "
            "trained on the new task from scratch; the prefix started at 0.02 instead of 1; and "
            "LoRA, a soft prompt and an attention bias with up to 384 parameters, because LoRA on "
            "any matrix of this model takes at least 192. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    controls = (paper.SCRATCH, paper.SMALL_START, paper.LORA, SOFT, BIAS, paper.PINNED)
    return PublishedTable(
        title="Table 1",
        source=f"{paper.SOURCE}, table 1",
        seeds=SEEDS,
        columns=columns(paper.ORDERS, paper.SORTS),
        rows=(
            row(BASE, score(91, 5), score(0, 0)),
            row(paper.FULL, score(0, 0), score(85, 5), of=paper.FULL),
            row(paper.PREFIX, score(0, 0), score(0, 0), of=paper.PREFIX),
            *(row(label, of=label) for label in controls),
        ),
    )


def _claims() -> tuple[PaperClaim, ...]:
    learned = [at_least(paper.FULL, DOWN, 0.8)]
    return (
        claim(
            "prefix-fails",
            "Prefix-tuning may not be able to learn a task that is said to need a new attention "
            "pattern, which full fine-tuning learns.",
            at_most(paper.PREFIX, DOWN, 0.01),
            above(paper.FULL, paper.PREFIX, DOWN, 0.5),
            arxiv_v1=never(
                "Prefix-tuning cannot learn a task that is said to need a new attention pattern.",
                paper.PREFIX,
                0.01,
                trials=paper.RATES,
            ),
            given=[at_most(BASE, DOWN, 0.01)],
            controls=learned,
        ),
        claim(
            "base-sorts-up",
            "The base model sorts upwards and does not sort downwards.",
            at_least(BASE, UP, 0.85),
            at_most(BASE, DOWN, 0.01),
            role="premise",
        ),
        claim(
            "full-fine-tuning-learns",
            "Full fine-tuning learns to sort downwards.",
            *learned,
            role="premise",
            given=[at_most(BASE, DOWN, 0.01)],
        ),
        claim(
            "no-new-pattern-is-needed",
            "Training all other weights learns to sort downwards while relative attention in the "
            "first layer stays unchanged. So a prefix does not fail for lack of a new pattern "
            "there; what remains is that it adds a bias of low rank, at this depth and size.",
            at_least(paper.PINNED, DOWN, 0.5),
            DeviationAtMost(row=paper.PINNED, value=1e-6),
            role="own",
            given=[at_most(BASE, DOWN, 0.01)],
        ),
        claim(
            "old-skill-is-lost",
            "Full fine-tuning and the prefix lose the old skill while they are attached.",
            at_most(paper.FULL, UP, 0.01),
            at_most(paper.PREFIX, UP, 0.01),
            given=[at_least(BASE, UP, 0.85), *learned],
        ),
        claim(
            "relative-attention-stays",
            "A prefix leaves relative attention over the content unchanged (equation 6), and full "
            "fine-tuning changes it.",
            DeviationAtMost(row=paper.PREFIX, value=1e-6),
            DeviationAtLeast(row=paper.FULL, value=0.1),
            given=learned,
        ),
    )


def _quick() -> StudySpec:
    training = paper.quick_steps(800, learning_rate=5e-3)
    tuning = {"trials": paper.RATES, "learning_rate_range": [5e-4, 0.5]}
    return study(
        STUDY,
        bases=[_base("petrov2024-ascending-quick", training)],
        tasks=[paper.DOWN],
        methods=(
            paper.full(tuning={"learning_rates": [3e-3]}),
            paper.pinned(training={"steps": 800}, tuning={"learning_rates": [2e-3]}),
            paper.prefix(1, training={"steps": 1600}, tuning=tuning),
        ),
        budget=96,
        seeds=SEEDS,
        scored=paper.SORTS,
        training=paper.quick_steps(400),
        capture=FIGURE_1,
    )


def _faithful() -> StudySpec:
    return study(
        STUDY,
        bases=[_paper_base()],
        tasks=[paper.DOWN],
        methods=(
            paper.full(training={"weight_decay": 0.1}),
            paper.prefix(1, training={"steps": 40_000, "weight_decay": 0.01}),
        ),
        budget=96,
        seeds=SEEDS,
        scored=paper.SORTS,
        resources=paper.GPU,
        training={**paper.CONSTANT, "steps": 10_000, "learning_rate": 5e-4},
        capture=FIGURE_1,
    )


def _fair() -> StudySpec:
    return study(
        STUDY,
        bases=[_paper_base()],
        tasks=[paper.DOWN],
        methods=(
            paper.full(),
            paper.pinned(),
            paper.scratch(),
            paper.prefix(1),
            paper.prefix(1, label=paper.SMALL_START, start=0.02),
            paper.method(paper.LORA, "lora"),
            paper.method(SOFT, "soft_prompt"),
            paper.method(BIAS, "attention_bias"),
        ),
        budget=384,
        seeds=SEEDS,
        scored=paper.SORTS,
        resources=paper.GPU,
        training=paper.equal_steps(10_000),
        tuning={"trials": paper.RATES},
        capture=FIGURE_1,
    )


def _paper_base() -> Members:
    training = paper.constant(20_000, 5e-4)
    return _base("petrov2024-ascending", training, dropout=0.1, resources=paper.GPU)


def _base(name: str, training: Members, *, dropout: float = 0.0, **members: object) -> Members:
    """Return one layer, one head, and one pad that the prefix replaces."""
    sizes: Members = {"layers": 1, "heads": 1, "width": 96, "pad_positions": 1}
    return {
        **paper.base(
            name,
            {**sizes, "dropout": dropout},
            paper.UP,
            training,
            seeds=SEEDS,
            scored=paper.SORTS,
        ),
        **members,
    }
