"""Suffixes: learned positions after the question.

The theory is said to extend to them. The models have two layers, because with one layer four rows
would be two: a suffix at the input alone computes the same function as one in every layer, and a
soft prompt the same as a prefix.
"""

from adaptlab.recipes.claim_builders import at_least, at_most
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024.claim_builders import claim, never
from adaptlab.recipes.petrov2024.one_layer import (
    quick_skilled_base,
    quick_sorting_base,
    skilled_base,
    sorting_base,
)
from adaptlab.recipes.petrov2024.settings import Members
from adaptlab.recipes.studies import study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import DeviationAtMost, PaperClaim
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe, TableRow
from adaptlab.studies.study import StudySpec

STUDY = "petrov2024-suffix"
SUFFIX, INPUT, SOFT = "suffix-tuning", "suffix at the input alone", "soft prompt"
NEW, KNOWN = "ascending", "skills"
LAYERS = 2
SORTS_UP, HAS_SKILLS = "pretrained on ascending", "pretrained on four skills"
LEARNED = (paper.PREFIX, SUFFIX, INPUT, SOFT)


@RECIPES.register("petrov2024/suffix")
def suffix() -> Recipe:
    """Return the recipe: sorting downwards by one learned position."""
    return Recipe(
        name="petrov2024/suffix",
        title="Suffixes against prefixes",
        question="Can learned positions after the question do what those before it cannot?",
        source=f"{paper.SOURCE}, section 3 and discussion: stated, not measured",
        versions=paper.VERSIONS,
        stand_ins={"quick": "two-layer decoders of widths 64 and 96 trained here"},
        base_models=(NEW, KNOWN),
        presets={"quick": _quick(), "faithful": _thorough(), "fair": _thorough()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "The quick base models of tables 1 and 2 with two layers instead of one. With "
            "one layer, a suffix at the input alone computes the same function as one in every "
            "layer, and a soft prompt the same as a prefix. 5 seeds, one learned position, 8 "
            "learning rates and equal steps for every method except full fine-tuning, which has "
            "one rate. About 14 minutes on two cores with 3 seeds.",
            "faithful": paper.NO_SUCH_RUN,
            "fair": "The paper's models of tables 1 and 2 with two layers, one learned position, "
            "equal steps and 8 learning rates for every method, selected on the validation split. "
            "For a GPU.",
        },
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Sorting downwards by one learned position",
        source="not published",
        columns=columns(paper.ORDERS, paper.SORTS),
        rows=(
            row(SORTS_UP),
            *(row(_new(label), of=label, on=NEW) for label in (*LEARNED, paper.FULL)),
            row(HAS_SKILLS, on=KNOWN),
            *(_known(label) for label in LEARNED),
        ),
    )


def _new(label: str) -> str:
    return f"{label}, new task"


def _known(label: str) -> TableRow:
    return row(f"{label}, known skill", of=label, on=KNOWN)


def _claims() -> tuple[PaperClaim, ...]:
    down = "descending"
    new = [at_most(SORTS_UP, down, 0.01)]
    learned = [at_least(_new(paper.FULL), down, 0.8)]
    return (
        claim(
            "suffix-fails-on-the-new-task",
            "A suffix may not be able to teach a task that is said to need a new attention "
            "pattern.",
            at_most(_new(SUFFIX), "descending", 0.01),
            arxiv_v1=never(
                "A suffix cannot teach a task that is said to need a new attention pattern.",
                _new(SUFFIX),
                0.01,
                trials=paper.RATES,
            ),
            given=new,
            controls=learned,
        ),
        claim(
            "input-only-suffix-fails-too",
            "Virtual tokens after the question, whose rows in deeper layers depend "
            "on the question, do no better.",
            at_most(_new(INPUT), "descending", 0.01),
            role="own",
            given=new,
            controls=learned,
        ),
        claim(
            "suffix-calls-up-a-skill",
            "A suffix makes a model do a task that it was pretrained on, as a prefix does.",
            at_least(f"{SUFFIX}, known skill", "descending", 0.8),
            at_least(f"{paper.PREFIX}, known skill", "descending", 0.8),
            given=[at_most(HAS_SKILLS, "descending", 0.6)],
        ),
        claim(
            "relative-attention-stays",
            "In the first layer, suffix and prefix leave relative attention over the content "
            "unchanged.",
            DeviationAtMost(row=_new(SUFFIX), value=1e-6),
            DeviationAtMost(row=_new(paper.PREFIX), value=1e-6),
            given=[*new, *learned],
        ),
    )


def _methods(tuning: Members, on: Members, full: Members) -> tuple[Members, ...]:
    return (
        paper.prefix(1, tuning=tuning),
        paper.method(SUFFIX, "suffix_tuning", length=1, tuning=tuning),
        paper.method(INPUT, "suffix_tuning", length=1, scope="input_only", tuning=tuning),
        paper.method(SOFT, "soft_prompt", length=1, tuning=tuning),
        paper.full(base_models=(on["name"],), **full),
    )


def _quick() -> StudySpec:
    sorting = quick_sorting_base(layers=LAYERS)
    single = paper.one_rate({"steps": 400, "learning_rate": 3e-3})
    return study(
        STUDY,
        bases=(sorting, quick_skilled_base(layers=LAYERS)),
        tasks=[paper.DOWN],
        methods=_methods(paper.QUICK_RANGE, sorting, single),
        budget=256,
        scored=paper.SORTS,
        samples=1000,
        training=paper.quick_steps(1200),
        tuning=paper.rates(paper.RATES),
        capture=paper.PATTERNS,
    )


def _thorough() -> StudySpec:
    sorting = sorting_base(layers=LAYERS)
    return study(
        STUDY,
        bases=(sorting, skilled_base(layers=LAYERS)),
        tasks=[paper.DOWN],
        methods=_methods(paper.WIDE, sorting, {}),
        budget=LAYERS * 256,
        scored=paper.SORTS,
        resources=paper.GPU,
        training=paper.equal_steps(30_000),
        tuning=paper.rates(paper.RATES),
        capture=paper.PATTERNS,
    )
