"""Appendix B: attention over a prefix, and the used part of its span."""

from adaptlab.recipes.claim_builders import at_least, at_most, holds
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024.claim_builders import claim
from adaptlab.recipes.petrov2024.settings import Members
from adaptlab.recipes.studies import study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import PaperClaim
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.studies.study import StudySpec

STUDY = "petrov2024-prefix-attention"
BASE = "pretrained on four skills"
ROWS, BUDGET = 10, 92_160
CHECKS: tuple[Members, ...] = tuple(
    {"name": name, "of": paper.PREFIX}
    for name in ("prefix_attention", "span", "relative_attention")
)
PREFIXES = 20
"""Prefixes that the paper trains on one model, from as many seeds."""
PUBLISHED_GAPS = (
    0.016,
    0.102,
    0.174,
    0.088,
    0.076,
    0.069,
    0.080,
    0.106,
    0.163,
    0.147,
    0.156,
    0.102,
)
"""The gap in each of GPT-2's twelve layers, mean over slots and prefixes (published notebook)."""


@RECIPES.register("petrov2024/prefix-attention")
def prefix_attention() -> Recipe:
    """Return the recipe: attention among ten positions of a prefix."""
    gaps = ", ".join(f"{gap:.3f}" for gap in PUBLISHED_GAPS)
    return Recipe(
        name="petrov2024/prefix-attention",
        title="Use of a prefix's span",
        question="Do inputs shift attention among the rows of a longer prefix?",
        source=f"{paper.SOURCE}, appendix B and published notebook",
        versions=paper.VERSIONS,
        stand_ins={
            "quick": paper.QUICK_STAND_IN,
            "faithful": "a decoder of GPT-2's size trained here",
            "fair": "a four-layer decoder of width 256 trained here",
        },
        base_models=("skills",),
        presets={"quick": _quick(), "faithful": _faithful(), "fair": _fair()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "Prefixes of ten rows in five seeds, each on its own base, on table 3's "
            "quick base and the skill of sorting downwards. In the paper, the gaps between the "
            f"99th and the 1st percentile in GPT-2's layers 0 to 11 are {gaps}. They are those of "
            "head l of layer l; the check reports both that and the mean over heads. About 3 "
            "minutes on two cores with 3 seeds.",
            "faithful": "GPT-2's sizes: 12 layers, 12 heads, width 768. As in the paper, 20 "
            "prefixes of 92,160 parameters on one model, 5,000 steps of 32 items at 1e-2, and an "
            "initial scale of 0.02. The model is trained here on the four sorting and adding "
            "tasks, because neither GPT-2's weights nor the paper's text data can be included; to "
            "use your own, import them and clone the study. The rate is constant, where the "
            "paper's falls by 2.5 % every 1,000 steps, and there is no dropout. For a GPU.",
            "fair": "Table 3's model, ten prefixes, 8 learning rates, selected on the validation "
            "split. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Accuracy of the prefixes",
        source="not in the paper: its prefixes are trained on text",
        columns=columns(("descending",), (paper.DOWN,)),
        rows=(row(BASE), row(paper.PREFIX, of=paper.PREFIX)),
    )


def _claims() -> tuple[PaperClaim, ...]:
    mixed = [at_most(BASE, "descending", 0.6)]
    trained = [at_least(paper.PREFIX, "descending", 0.8)]
    return (
        claim(
            "prefix-is-trained",
            "The prefixes whose attention is measured do their task.",
            *trained,
            role="premise",
            given=mixed,
        ),
        claim(
            "attention-hardly-varies",
            "Attention over the rows of a prefix varies little over inputs: in no layer does the "
            "mean gap between its 99th and 1st percentile exceed 0.2 (the paper's largest: 0.174).",
            holds("prefix_attention"),
            given=[*mixed, *trained],
        ),
        claim(
            "added-part-is-in-the-span",
            "The part that a prefix adds is in the span of its rows, which has at most as many "
            "dimensions.",
            holds("span"),
            given=[*mixed, *trained],
        ),
        claim(
            "identities-hold",
            "Equations 6 and 7 hold for the trained prefixes, layer by layer.",
            holds("relative_attention"),
            given=[*mixed, *trained],
        ),
    )


def _quick() -> StudySpec:
    return study(
        STUDY,
        bases=[paper.quick_skills_base()],
        tasks=paper.shorter([paper.DOWN]),
        methods=[paper.prefix(ROWS)],
        budget=2560,
        samples=1000,
        training=paper.quick_steps(800),
        tuning=paper.rates(paper.QUICK_RATES, **paper.QUICK_RANGE),
        checks=CHECKS,
    )


def _faithful() -> StudySpec:
    large = paper.base(
        "petrov2024-skills-gpt2",
        {"layers": 12, "heads": 12, "width": 768, "pad_positions": ROWS},
        paper.MIXTURE,
        paper.constant(20_000, 3e-4),
        seeds=1,
        scored=paper.TASKS,
        resources=paper.GPU,
    )
    return study(
        STUDY,
        bases=[large],
        tasks=[paper.DOWN],
        methods=[paper.prefix(ROWS, start=0.02)],
        budget=BUDGET,
        seeds=PREFIXES,
        resources=paper.GPU,
        training={**paper.constant(5_000, 1e-2, 0.0), "batch_size": 32},
        checks=CHECKS,
    )


def _fair() -> StudySpec:
    return study(
        STUDY,
        bases=[paper.skills_base()],
        tasks=[paper.DOWN],
        methods=[paper.prefix(ROWS)],
        budget=BUDGET,
        seeds=10,
        resources=paper.GPU,
        training=paper.equal_steps(20_000),
        tuning={"trials": paper.RATES, **paper.WIDE},
        checks=CHECKS,
    )
