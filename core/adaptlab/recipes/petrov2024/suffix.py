"""Suffixes: learned positions after the question, to which the theory is said to carry over."""

from adaptlab.claim import Claim, DeviationAtMost, EveryTrialAtMost
from adaptlab.recipe import RECIPES, PublishedTable, Recipe, TableRow
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
    at_least,
    at_most,
    claim,
    columns,
    method,
    one_rate,
    prefix,
    row,
    study,
)
from adaptlab.study import StudySpec

SUFFIX, INPUT, SOFT = "suffix-tuning", "suffix at the input alone", "soft prompt"
NEW, KNOWN = "ascending", "skills"
LEARNED = (PREFIX, SUFFIX, INPUT, SOFT)


@RECIPES.register("petrov2024/suffix")
def suffix() -> Recipe:
    """Sorting down by one learned position, as a new task and as a skill of the base model."""
    return Recipe(
        name="petrov2024/suffix",
        title="Suffixes against prefixes",
        question="Do learned positions after the question do what those before it do not?",
        source=f"{SOURCE}, section 3 and discussion: said, not measured",
        base_models=(NEW, KNOWN),
        presets={"quick": _quick(), "faithful": _thorough(), "fair": _thorough()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "The quick base models of tables 1 and 2 in 3 seeds, one learned position, 8 "
            "learning rates and equal steps for every method but full fine-tuning, which has one "
            "rate. About 8 minutes on two cores.",
            "faithful": "The paper has no such run: the same as the fair preset. For a GPU.",
            "fair": "The paper's models of tables 1 and 2, one learned position, equal steps and 8 "
            "learning rates for every method, chosen on the validation split. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    labels = ("ascending", "descending")
    return PublishedTable(
        title="Sorting down by one learned position",
        source="not published",
        columns=columns(labels, (UP, DOWN)),
        rows=(
            row("pretrained on ascending"),
            *(row(_new(label), of=label, on=NEW) for label in (*LEARNED, FULL)),
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
            arxiv_v1=(
                "A suffix cannot teach a task that needs a new pattern of attention.",
                (EveryTrialAtMost(row=_new(SUFFIX), value=0.01, trials=RATES),),
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
            at_least(f"{PREFIX}, known skill", "descending", 0.8),
        ),
        claim(
            "relative-attention-stays",
            "Suffix and prefix leave relative attention over the content as it is.",
            DeviationAtMost(row=_new(SUFFIX), value=1e-6),
            DeviationAtMost(row=_new(PREFIX), value=1e-6),
        ),
    )


def _methods(tuning: Members, on: str, full: Members) -> tuple[Members, ...]:
    return (
        prefix(PREFIX, 1, tuning=tuning),
        method(SUFFIX, "suffix_tuning", length=1, tuning=tuning),
        method(INPUT, "suffix_tuning", length=1, scope="input_only", tuning=tuning),
        method(SOFT, "soft_prompt", length=1, tuning=tuning),
        method(FULL, "full_finetuning", base_models=(on,), **full),
    )


def _quick() -> StudySpec:
    bases = (quick_sorting_base(), quick_skilled_base())
    full = one_rate({"steps": 400, "learning_rate": 3e-3})
    return _study(
        bases,
        _methods(QUICK_RANGE, str(bases[0]["name"]), full),
        training={"steps": 1200, "batch_size": 32, "validations": 5},
        tuning={"trials": RATES, "validation_samples": 1280},
        samples=1000,
    )


def _thorough() -> StudySpec:
    bases = (sorting_base(), skilled_base())
    return _study(
        bases,
        _methods({"learning_rate_range": PREFIX_RANGE}, str(bases[0]["name"]), {}),
        resources=GPU,
        training={"steps": 30_000, "batch_size": 64},
        tuning={"trials": RATES, "validation_samples": 1280},
    )


def _study(
    bases: tuple[Members, ...],
    methods: tuple[Members, ...],
    *,
    samples: int = 3200,
    **members: object,
) -> StudySpec:
    return study(
        "petrov2024-suffix",
        bases=bases,
        tasks=[DOWN],
        methods=methods,
        budget=256,
        seeds=3,
        scored=(UP, DOWN),
        samples=samples,
        capture={"attention": {"samples": 4}},
        **members,
    )
