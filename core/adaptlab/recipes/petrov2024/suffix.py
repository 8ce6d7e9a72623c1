"""Suffixes: learned positions after the question, to which the theory is said to carry over."""

from adaptlab.claim import Claim, DeviationAtMost
from adaptlab.recipe import RECIPES, PublishedTable, Recipe, TableRow
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024.claims import at_least, at_most, claim, never
from adaptlab.recipes.petrov2024.one_layer import (
    quick_skilled_base,
    quick_sorting_base,
    skilled_base,
    sorting_base,
)
from adaptlab.recipes.petrov2024.settings import Members
from adaptlab.recipes.petrov2024.tables import columns, row
from adaptlab.study import StudySpec

STUDY = "petrov2024-suffix"
SUFFIX, INPUT, SOFT = "suffix-tuning", "suffix at the input alone", "soft prompt"
NEW, KNOWN = "ascending", "skills"
LEARNED = (paper.PREFIX, SUFFIX, INPUT, SOFT)


@RECIPES.register("petrov2024/suffix")
def suffix() -> Recipe:
    """Sorting down by one learned position, as a new task and as a skill of the base model."""
    return Recipe(
        name="petrov2024/suffix",
        title="Suffixes against prefixes",
        question="Do learned positions after the question do what those before it do not?",
        source=f"{paper.SOURCE}, section 3 and discussion: said, not measured",
        base_models=(NEW, KNOWN),
        presets={"quick": _quick(), "faithful": _thorough(), "fair": _thorough()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "The quick base models of tables 1 and 2 in 3 seeds, one learned position, 8 "
            "learning rates and equal steps for every method but full fine-tuning, which has one "
            "rate. About 8 minutes on two cores.",
            "faithful": paper.NO_SUCH_RUN,
            "fair": "The paper's models of tables 1 and 2, one learned position, equal steps and 8 "
            "learning rates for every method, chosen on the validation split. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Sorting down by one learned position",
        source="not published",
        columns=columns(paper.ORDERS, paper.SORTS),
        rows=(
            row("pretrained on ascending"),
            *(row(_new(label), of=label, on=NEW) for label in (*LEARNED, paper.FULL)),
            row("pretrained on four skills", on=KNOWN),
            *(_known(label) for label in LEARNED),
        ),
    )


def _new(label: str) -> str:
    return f"{label}, new task"


def _known(label: str) -> TableRow:
    return row(f"{label}, known skill", of=label, on=KNOWN)


def _claims() -> tuple[Claim, ...]:
    return (
        claim(
            "suffix-fails-on-the-new-task",
            "A suffix may not be able to teach a task that needs a new pattern of attention.",
            at_most(_new(SUFFIX), "descending", 0.01),
            arxiv_v1=never(
                "A suffix cannot teach a task that needs a new pattern of attention.",
                _new(SUFFIX),
                0.01,
                trials=paper.RATES,
            ),
        ),
        claim(
            "input-only-suffix-fails-too",
            "Not claimed: virtual tokens after the question, whose rows in deeper layers would "
            "depend on it, do no better on a model of one layer.",
            at_most(_new(INPUT), "descending", 0.01),
        ),
        claim(
            "suffix-calls-up-a-skill",
            "A suffix makes a model do a task that it was pretrained on, as a prefix does.",
            at_least(f"{SUFFIX}, known skill", "descending", 0.8),
            at_least(f"{paper.PREFIX}, known skill", "descending", 0.8),
        ),
        claim(
            "relative-attention-stays",
            "Suffix and prefix leave relative attention over the content as it is.",
            DeviationAtMost(row=_new(SUFFIX), value=1e-6),
            DeviationAtMost(row=_new(paper.PREFIX), value=1e-6),
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
    sorting = quick_sorting_base()
    single = paper.one_rate({"steps": 400, "learning_rate": 3e-3})
    return paper.study(
        STUDY,
        bases=(sorting, quick_skilled_base()),
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
    sorting = sorting_base()
    return paper.study(
        STUDY,
        bases=(sorting, skilled_base()),
        tasks=[paper.DOWN],
        methods=_methods(paper.WIDE, sorting, {}),
        budget=256,
        scored=paper.SORTS,
        resources=paper.GPU,
        training=paper.equal_steps(30_000),
        tuning=paper.rates(paper.RATES),
        capture=paper.PATTERNS,
    )
