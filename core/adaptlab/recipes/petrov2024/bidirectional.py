"""Bidirectional attention instead of a causal mask.

It is not a masked language model: no part of a text is masked and predicted. The whole answer is
hidden at the input and filled in at all positions at once.
"""

from adaptlab.recipes.claims import above, at_least, at_most, holds
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024.claims import claim, never
from adaptlab.recipes.petrov2024.one_layer import (
    quick_skilled_base,
    quick_sorting_base,
    skilled_base,
    sorting_base,
)
from adaptlab.recipes.petrov2024.settings import Members
from adaptlab.recipes.studies import study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import Claim, DeviationAtLeast, DeviationAtMost
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.studies.study import StudySpec

STUDY = "petrov2024-bidirectional"
NEW, KNOWN = "ascending", "skills"
UP, DOWN = paper.ORDERS
SORTS_UP, HAS_SKILLS = "pretrained on ascending", "pretrained on four skills"
CHECKS: tuple[Members, ...] = ({"name": "relative_attention", "of": paper.PREFIX},)


@RECIPES.register("petrov2024/bidirectional")
def bidirectional() -> Recipe:
    """Return the recipe: tables 1 and 2 with bidirectional attention."""
    return Recipe(
        name="petrov2024/bidirectional",
        title="Bidirectional attention instead of a causal mask",
        question="Do the paper's claims depend on the causal mask?",
        source=f"{paper.SOURCE}: our check, not in the paper",
        versions=paper.VERSIONS,
        base_models=(NEW, KNOWN),
        presets={"quick": _quick(), "faithful": _thorough(), "fair": _thorough()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "The quick models of tables 1 and 2 in 5 seeds with bidirectional attention: "
            "the answer is hidden at the input and filled in at all positions at once. This is not "
            "a masked language model, which predicts random parts of a text. With neither a cue "
            "nor its own first token, the second model cannot see which task it has begun, so it "
            "gets hardly any whole answer right. One prefix row, 8 learning rates; full "
            "fine-tuning has one. About 3 minutes on two cores with 3 seeds.",
            "faithful": paper.NO_SUCH_RUN,
            "fair": "The paper's sizes and settings for the bases; equal steps and 8 learning "
            "rates for both methods, selected on the validation split. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Sorting downwards with bidirectional attention",
        source="not published",
        columns=columns(paper.ORDERS, paper.SORTS),
        rows=(
            row(SORTS_UP),
            row(f"{paper.FULL}, new task", of=paper.FULL, on=NEW),
            row(f"{paper.PREFIX}, new task", of=paper.PREFIX, on=NEW),
            row(HAS_SKILLS, on=KNOWN),
            row(f"{paper.FULL}, known skill", of=paper.FULL, on=KNOWN),
            row(f"{paper.PREFIX}, known skill", of=paper.PREFIX, on=KNOWN),
        ),
    )


def _claims() -> tuple[Claim, ...]:
    new = f"{paper.PREFIX}, new task"
    return (
        claim(
            "base-sorts-up",
            "The base model sorts upwards and not downwards.",
            at_least(SORTS_UP, UP, 0.85),
            at_most(SORTS_UP, DOWN, 0.01),
        ),
        claim(
            "prefix-fails-on-the-new-task",
            "A prefix may not be able to teach it a task that is said to need a new attention "
            "pattern, which full fine-tuning teaches it.",
            at_most(new, DOWN, 0.01),
            above(f"{paper.FULL}, new task", new, DOWN, 0.5),
            arxiv_v1=never(
                "A prefix cannot teach it a task that is said to need a new attention pattern.",
                new,
                0.01,
                trials=paper.RATES,
            ),
            given=[at_most(SORTS_UP, DOWN, 0.01)],
            controls=[at_least(f"{paper.FULL}, new task", DOWN, 0.8)],
        ),
        claim(
            "prefix-calls-up-a-skill",
            "A prefix makes a model without a causal mask do a task that it was pretrained on.",
            at_least(f"{paper.PREFIX}, known skill", DOWN, 0.8),
            given=[at_most(HAS_SKILLS, DOWN, 0.6)],
        ),
        claim(
            "relative-attention-stays",
            "The identities hold without a causal mask: a prefix leaves relative attention over "
            "the content unchanged, and full fine-tuning changes it.",
            DeviationAtMost(row=new, value=1e-6),
            holds("relative_attention"),
            DeviationAtLeast(row=f"{paper.FULL}, new task", value=0.1),
            given=[at_most(SORTS_UP, DOWN, 0.01), at_least(f"{paper.FULL}, new task", DOWN, 0.8)],
        ),
    )


def _quick() -> StudySpec:
    single = paper.one_rate({"steps": 400, "learning_rate": 3e-3})
    return study(
        STUDY,
        bases=[quick_sorting_base("bidirectional"), quick_skilled_base("bidirectional")],
        tasks=[paper.DOWN],
        methods=(paper.prefix(1, tuning=paper.QUICK_RANGE), paper.full(**single)),
        budget=256,
        scored=paper.SORTS,
        samples=1000,
        training=paper.quick_steps(1200),
        tuning=paper.rates(paper.RATES),
        capture=paper.PATTERNS,
        checks=CHECKS,
    )


def _thorough() -> StudySpec:
    return study(
        STUDY,
        bases=[sorting_base("bidirectional"), skilled_base("bidirectional")],
        tasks=[paper.DOWN],
        methods=(paper.prefix(1, tuning=paper.WIDE), paper.full()),
        budget=256,
        scored=paper.SORTS,
        resources=paper.GPU,
        training=paper.equal_steps(30_000),
        tuning=paper.rates(paper.RATES),
        capture=paper.PATTERNS,
        checks=CHECKS,
    )
