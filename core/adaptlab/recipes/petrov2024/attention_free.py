"""A model without attention, in which positions exchange nothing."""

from adaptlab.recipes.claim_builders import above, at_least, at_most
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024.claim_builders import claim
from adaptlab.recipes.petrov2024.one_layer import quick_sorting_base, sorting_base
from adaptlab.recipes.petrov2024.settings import Members
from adaptlab.recipes.studies import study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import PaperClaim
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe, TableRow
from adaptlab.studies.study import StudySpec

STUDY = "petrov2024-attention-free"
CAUSAL, BLIND = "with attention", "without attention"
BIAS = "bias terms"
METHODS = (paper.FULL, paper.SCRATCH, paper.LORA, BIAS)


@RECIPES.register("petrov2024/attention-free")
def attention_free() -> Recipe:
    """Return the recipe: sorting with MLPs only, without a prefix."""
    return Recipe(
        name="petrov2024/attention-free",
        title="A model without attention",
        question="What can each method still do if no position sees another?",
        source=f"{paper.SOURCE}: our ablation, not in the paper",
        versions=paper.VERSIONS,
        base_models=(CAUSAL, BLIND),
        presets={"quick": _quick(), "faithful": _thorough(), "fair": _thorough()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "The model without attention is a strawman: nothing else in it moves "
            "information between positions, so no method can sort, whatever it trains. It bounds "
            "the table from below and says nothing about other ways of mixing positions. The bases "
            "are table 1's quick model in 5 seeds, and one of the same width without its attention "
            "sublayer. Prefix-tuning does not apply to the second, so the study leaves it out. "
            "4 learning rates; 1 for full fine-tuning and from scratch. About 2 minutes on two "
            "cores with 3 seeds.",
            "faithful": paper.NO_SUCH_RUN,
            "fair": "Table 1's model and settings for the bases; equal steps and 8 learning rates "
            "for every method, selected on the validation split. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Sorting with and without attention",
        source="not published",
        columns=columns(paper.ORDERS, paper.SORTS),
        rows=(
            row(f"pretrained {CAUSAL}"),
            *(_row(label, CAUSAL) for label in (paper.PREFIX, *METHODS)),
            row(f"pretrained {BLIND}", on=BLIND),
            *(_row(label, BLIND) for label in METHODS),
        ),
    )


def _row(label: str, on: str) -> TableRow:
    return row(f"{label} {on}", of=label, on=on)


def _claims() -> tuple[PaperClaim, ...]:
    up, down = paper.ORDERS
    new = [at_most(f"pretrained {CAUSAL}", down, 0.01)]
    learned = [at_least(f"{paper.FULL} {CAUSAL}", down, 0.8)]
    return (
        claim(
            "sorting-needs-what-sees-other-positions",
            "A strawman: without attention no position sees another, so the same "
            "model neither sorts after pretraining nor learns to sort by full fine-tuning. A model "
            "that mixes positions in another way might.",
            above(f"pretrained {CAUSAL}", f"pretrained {BLIND}", up, 0.5),
            above(f"{paper.FULL} {CAUSAL}", f"{paper.FULL} {BLIND}", down, 0.5),
            role="own",
        ),
        claim(
            "with-attention-it-is-learned",
            "With attention, full fine-tuning learns the new order.",
            at_least(f"pretrained {CAUSAL}", up, 0.85),
            *learned,
            role="premise",
            given=new,
        ),
        claim(
            "prefix-fails",
            "With attention, a prefix may not be able to teach the new order.",
            at_most(f"{paper.PREFIX} {CAUSAL}", down, 0.01),
            role="own",
            given=new,
            controls=learned,
        ),
    )


def _methods(
    causal: Members, tuning: Members, full: Members, fresh: Members
) -> tuple[Members, ...]:
    return (
        paper.prefix(1, tuning=tuning, base_models=(causal["name"],)),
        paper.full(**full),
        paper.scratch(**fresh),
        paper.method(paper.LORA, "lora", rank=1, sites=("mlp",)),
        paper.method(BIAS, "bitfit"),
    )


def _quick() -> StudySpec:
    causal, blind = quick_sorting_base(), quick_sorting_base("none")
    single = paper.one_rate({"steps": 400, "learning_rate": 3e-3})
    fresh = paper.one_rate({"learning_rate": 5e-3})
    return study(
        STUDY,
        bases=(causal, blind),
        tasks=[paper.DOWN],
        methods=_methods(causal, paper.QUICK_RANGE, single, fresh),
        budget=2048,
        scored=paper.SORTS,
        samples=1000,
        training=paper.quick_steps(800),
        tuning={"trials": paper.QUICK_RATES},
    )


def _thorough() -> StudySpec:
    causal, blind = sorting_base(), sorting_base("none")
    return study(
        STUDY,
        bases=(causal, blind),
        tasks=[paper.DOWN],
        methods=_methods(causal, paper.WIDE, {}, {}),
        budget=2048,
        scored=paper.SORTS,
        resources=paper.GPU,
        training=paper.equal_steps(20_000),
        tuning={"trials": paper.RATES},
    )
