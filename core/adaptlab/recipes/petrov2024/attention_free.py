"""A model without attention: what is left where nothing can look anywhere."""

from adaptlab.claim import Claim
from adaptlab.recipe import RECIPES, PublishedTable, Recipe, TableRow
from adaptlab.recipes.petrov2024.one_layer import quick_sorting_base, sorting_base
from adaptlab.recipes.petrov2024.settings import (
    DOWN,
    FULL,
    GPU,
    LORA,
    PREFIX,
    PREFIX_RANGE,
    QUICK_RANGE,
    QUICK_RATES,
    RATES,
    SCRATCH,
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

CAUSAL, BLIND = "with attention", "without attention"
BIAS = "bias terms"
METHODS = (FULL, SCRATCH, LORA, BIAS)
LABELS = ("ascending", "descending")


@RECIPES.register("petrov2024/attention-free")
def attention_free() -> Recipe:
    """Sorting with a model of MLPs alone, on which a prefix has no place."""
    return Recipe(
        name="petrov2024/attention-free",
        title="A model without attention",
        question="What does each method need attention for?",
        source=f"{SOURCE}: an ablation that a reading of it proposes, not in the paper",
        base_models=(CAUSAL, BLIND),
        presets={"quick": _quick(), "faithful": _thorough(), "fair": _thorough()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "Table 1's quick model in 3 seeds, and one of the same width without its "
            "attention sublayer. Prefix-tuning has no place in that one, which the study says by "
            "leaving it out. 4 learning rates, one for full fine-tuning and from scratch. "
            "About 2 minutes on two cores.",
            "faithful": "The paper has no such run: the same as the fair preset. For a GPU.",
            "fair": "Table 1's model and settings for the bases; equal steps and 8 learning rates "
            "for every method, chosen on the validation split. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Sorting with and without attention",
        source="not published",
        columns=columns(LABELS, (UP, DOWN)),
        rows=(
            row(f"pretrained {CAUSAL}"),
            *(_row(label, CAUSAL) for label in (PREFIX, *METHODS)),
            row(f"pretrained {BLIND}", on=BLIND),
            *(_row(label, BLIND) for label in METHODS),
        ),
    )


def _row(label: str, on: str) -> TableRow:
    return row(f"{label} {on}", of=label, on=on)


def _claims() -> tuple[Claim, ...]:
    up, down = LABELS
    return (
        claim(
            "sorting-needs-attention",
            "Not claimed: without attention no position sees another, so nothing sorts, neither in "
            "pretraining nor after any adaptation.",
            at_most(f"pretrained {BLIND}", up, 0.01),
            *(at_most(f"{label} {BLIND}", down, 0.01) for label in METHODS),
        ),
        claim(
            "with-attention-it-is-learned",
            "Full fine-tuning learns the new order where there is attention.",
            at_least(f"pretrained {CAUSAL}", up, 0.85),
            at_least(f"{FULL} {CAUSAL}", down, 0.8),
        ),
        claim(
            "prefix-fails",
            "A prefix may not be able to teach the new order where there is attention.",
            at_most(f"{PREFIX} {CAUSAL}", down, 0.01),
        ),
    )


def _methods(causal: Members, tuning: Members, full: Members, fresh: Members) -> list[Members]:
    return [
        prefix(PREFIX, 1, tuning=tuning, base_models=(causal["name"],)),
        method(FULL, "full_finetuning", **full),
        method(SCRATCH, "from_scratch", **fresh),
        method(LORA, "lora", rank=1, sites=("mlp",)),
        method(BIAS, "bitfit"),
    ]


def _quick() -> StudySpec:
    causal, blind = quick_sorting_base(), quick_sorting_base("none")
    full = one_rate({"steps": 400, "learning_rate": 3e-3})
    fresh = one_rate({"learning_rate": 5e-3})
    return _study(
        [causal, blind],
        _methods(causal, QUICK_RANGE, full, fresh),
        training={"steps": 800, "batch_size": 32, "validations": 5},
        tuning={"trials": QUICK_RATES},
        samples=1000,
    )


def _thorough() -> StudySpec:
    causal, blind = sorting_base(), sorting_base("none")
    return _study(
        [causal, blind],
        _methods(causal, {"learning_rate_range": PREFIX_RANGE}, {}, {}),
        resources=GPU,
        training={"steps": 20_000, "batch_size": 64},
        tuning={"trials": RATES},
    )


def _study(
    bases: list[Members], methods: list[Members], *, samples: int = 3200, **members: object
) -> StudySpec:
    return study(
        "petrov2024-attention-free",
        bases=bases,
        tasks=[DOWN],
        methods=methods,
        budget=2048,
        seeds=3,
        scored=(UP, DOWN),
        samples=samples,
        **members,
    )
