"""Bidirectional attention instead of a causal mask.

It is not a masked language model: no part of a text is masked and predicted. The whole answer is
hidden at the input and filled in at all positions at once.
"""

from adaptlab.recipes.claim_builders import above, at_least, at_most, holds
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024.claim_builders import claim, never
from adaptlab.recipes.petrov2024.one_layer import CUED, cued_skilled_base, cued_sorting_base
from adaptlab.recipes.petrov2024.settings import Members
from adaptlab.recipes.studies import study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import DeviationAtLeast, DeviationAtMost, PaperClaim
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.studies.study import StudySpec

STUDY = "petrov2024-bidirectional"
NEW, KNOWN = "ascending", "skills"
UP, DOWN = paper.ORDERS
ASKED = "descending, new cue"
TASK = CUED[-1]
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
            "a masked language model, which predicts random parts of a text. Every question has a "
            "cue to its task, because such a model cannot see which task it has begun; the adapted "
            "task has a cue that the models never saw. One prefix row, 8 learning rates; full "
            "fine-tuning has one; both have 2,400 steps at a constant rate. About 6 minutes on two "
            "cores.",
            "faithful": paper.NO_SUCH_RUN,
            "fair": "The paper's sizes and settings for the bases; equal steps and 8 learning "
            "rates for both methods, selected on the validation split. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Sorting downwards with bidirectional attention",
        source="not published",
        columns=columns((*paper.ORDERS, ASKED), CUED),
        rows=(
            row(SORTS_UP),
            row(f"{paper.FULL}, new task", of=paper.FULL, on=NEW),
            row(f"{paper.PREFIX}, new task", of=paper.PREFIX, on=NEW),
            row(HAS_SKILLS, on=KNOWN),
            row(f"{paper.FULL}, known skill", of=paper.FULL, on=KNOWN),
            row(f"{paper.PREFIX}, known skill", of=paper.PREFIX, on=KNOWN),
        ),
    )


def _claims() -> tuple[PaperClaim, ...]:
    new = f"{paper.PREFIX}, new task"
    return (
        claim(
            "bases-have-their-skills",
            "One base model sorts upwards and not downwards; the other does both after their cues.",
            at_least(SORTS_UP, UP, 0.85),
            at_most(SORTS_UP, ASKED, 0.01),
            at_least(HAS_SKILLS, UP, 0.8),
            at_least(HAS_SKILLS, DOWN, 0.8),
            role="premise",
        ),
        claim(
            "prefix-fails-on-the-new-task",
            "A prefix may not be able to teach it a task that is said to need a new attention "
            "pattern, which full fine-tuning teaches it.",
            at_most(new, ASKED, 0.01),
            above(f"{paper.FULL}, new task", new, ASKED, 0.5),
            arxiv_v1=never(
                "A prefix cannot teach it a task that is said to need a new attention pattern.",
                new,
                0.01,
                trials=paper.RATES,
            ),
            role="own",
            given=[at_most(SORTS_UP, ASKED, 0.01)],
            controls=[at_least(f"{paper.FULL}, new task", ASKED, 0.8)],
        ),
        claim(
            "prefix-calls-up-a-skill",
            "A prefix makes a model without a causal mask do a task that it was pretrained on.",
            at_least(f"{paper.PREFIX}, known skill", ASKED, 0.8),
            role="own",
            given=[at_most(HAS_SKILLS, ASKED, 0.6), at_least(HAS_SKILLS, DOWN, 0.8)],
        ),
        claim(
            "relative-attention-stays",
            "The identities hold without a causal mask: a prefix leaves relative attention over "
            "the content unchanged, and full fine-tuning changes it.",
            DeviationAtMost(row=new, value=1e-6),
            holds("relative_attention"),
            DeviationAtLeast(row=f"{paper.FULL}, new task", value=0.1),
            role="own",
            given=[at_most(SORTS_UP, ASKED, 0.01), at_least(f"{paper.FULL}, new task", ASKED, 0.8)],
        ),
    )


def _quick() -> StudySpec:
    return study(
        STUDY,
        bases=[_sorting(is_quick=True), _skilled(is_quick=True)],
        tasks=[TASK],
        methods=(
            paper.prefix(1, tuning=paper.QUICK_RANGE),
            paper.full(**paper.one_rate({"learning_rate": 1e-3})),
        ),
        budget=256,
        scored=CUED,
        samples=1000,
        training=paper.quick_steps(2400, schedule="constant", warmup_fraction=0.0),
        tuning=paper.rates(paper.RATES),
        capture=paper.PATTERNS,
        checks=CHECKS,
    )


def _thorough() -> StudySpec:
    return study(
        STUDY,
        bases=[_sorting(is_quick=False), _skilled(is_quick=False)],
        tasks=[TASK],
        methods=(paper.prefix(1, tuning=paper.WIDE), paper.full()),
        budget=256,
        scored=CUED,
        resources=paper.GPU,
        training=paper.equal_steps(30_000),
        tuning=paper.rates(paper.RATES),
        capture=paper.PATTERNS,
        checks=CHECKS,
    )


def _sorting(*, is_quick: bool) -> Members:
    return cued_sorting_base("bidirectional", is_quick=is_quick)


def _skilled(*, is_quick: bool) -> Members:
    return cued_skilled_base("bidirectional", is_quick=is_quick)
