"""A masked model instead of a causal one: every position sees all, and answers are filled in."""

from adaptlab.claim import Claim, DeviationAtMost, EveryTrialAtMost
from adaptlab.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.recipes.petrov2024.one_layer import (
    quick_skilled_base,
    quick_sorting_base,
    skilled_base,
    sorting_base,
)
from adaptlab.recipes.petrov2024.settings import (
    DOWN,
    FULL,
    GPU,
    PREFIX,
    PREFIX_RANGE,
    QUICK_RANGE,
    RATES,
    SOURCE,
    UP,
    Members,
    above,
    at_least,
    at_most,
    claim,
    columns,
    holds,
    method,
    one_rate,
    prefix,
    row,
    study,
)
from adaptlab.study import StudySpec

NEW, KNOWN = "ascending", "skills"
LABELS = ("ascending", "descending")
UP_LABEL, DOWN_LABEL = LABELS


@RECIPES.register("petrov2024/masked-lm")
def masked_lm() -> Recipe:
    """Tables 1 and 2 in short on models whose attention goes both ways."""
    return Recipe(
        name="petrov2024/masked-lm",
        title="Masked instead of causal models",
        question="Do the paper's claims depend on the causal mask?",
        source=f"{SOURCE}: a check that a reading of it proposes, not in the paper",
        base_models=(NEW, KNOWN),
        presets={"quick": _quick(), "faithful": _thorough(), "fair": _thorough()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "The quick models of tables 1 and 2 in 3 seeds with attention both ways: the "
            "answer is masked at the input and filled in at all places at once. Without a cue, and "
            "without its own first token, nothing tells the second model which task it has begun, "
            "so it hardly has a whole answer right. One prefix row, 8 learning rates; full "
            "fine-tuning has one. About 3 minutes on two cores.",
            "faithful": "The paper has no such run: the same as the fair preset. For a GPU.",
            "fair": "The paper's sizes and settings for the bases; equal steps and 8 learning "
            "rates for both methods, chosen on the validation split. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Sorting down with masked models",
        source="not published",
        columns=columns(LABELS, (UP, DOWN)),
        rows=(
            row("pretrained on ascending"),
            row(f"{FULL}, new task", of=FULL, on=NEW),
            row(f"{PREFIX}, new task", of=PREFIX, on=NEW),
            row("pretrained on four skills", on=KNOWN),
            row(f"{FULL}, known skill", of=FULL, on=KNOWN),
            row(f"{PREFIX}, known skill", of=PREFIX, on=KNOWN),
        ),
    )


def _claims() -> tuple[Claim, ...]:
    new = f"{PREFIX}, new task"
    return (
        claim(
            "masked-base-sorts-up",
            "The masked base model sorts upwards and not downwards.",
            at_least("pretrained on ascending", UP_LABEL, 0.85),
            at_most("pretrained on ascending", DOWN_LABEL, 0.01),
        ),
        claim(
            "prefix-fails-on-the-new-task",
            "A prefix may not be able to teach it a new pattern of attention, which full "
            "fine-tuning does.",
            at_most(new, DOWN_LABEL, 0.01),
            above(f"{FULL}, new task", new, DOWN_LABEL, 0.5),
            arxiv_v1=(
                "A prefix cannot teach it a new pattern of attention.",
                (EveryTrialAtMost(row=new, value=0.01, trials=RATES),),
            ),
        ),
        claim(
            "prefix-calls-up-a-skill",
            "A prefix makes a masked model do a task that it was pretrained on.",
            at_least(f"{PREFIX}, known skill", DOWN_LABEL, 0.8),
        ),
        claim(
            "relative-attention-stays",
            "The identities need no mask: relative attention over the content stays.",
            DeviationAtMost(row=new, value=1e-6),
            holds("relative_attention"),
        ),
    )


def _quick() -> StudySpec:
    bases = [quick_sorting_base("bidirectional"), quick_skilled_base("bidirectional")]
    return _study(
        bases,
        QUICK_RANGE,
        one_rate({"steps": 400, "learning_rate": 3e-3}),
        training={"steps": 1200, "batch_size": 32, "validations": 5},
        tuning={"trials": RATES, "validation_samples": 1280},
        samples=1000,
    )


def _thorough() -> StudySpec:
    bases = [sorting_base("bidirectional"), skilled_base("bidirectional")]
    return _study(
        bases,
        {"learning_rate_range": PREFIX_RANGE},
        {},
        resources=GPU,
        training={"steps": 30_000, "batch_size": 64},
        tuning={"trials": RATES, "validation_samples": 1280},
    )


def _study(
    bases: list[Members],
    range_of_prefix: Members,
    full: Members,
    *,
    samples: int = 3200,
    **members: object,
) -> StudySpec:
    return study(
        "petrov2024-masked-lm",
        bases=bases,
        tasks=[DOWN],
        methods=[
            prefix(PREFIX, 1, tuning=range_of_prefix),
            method(FULL, "full_finetuning", **full),
        ],
        budget=256,
        seeds=3,
        scored=(UP, DOWN),
        samples=samples,
        capture={"attention": {"samples": 4}},
        checks=({"name": "relative_attention", "of": PREFIX},),
        **members,
    )
