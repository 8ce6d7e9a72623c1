"""Section 4.1: attention to label words, scaled by training."""

from adaptlab.recipes.claims import above, at_least, at_most, claim
from adaptlab.recipes.studies import Members, method, study
from adaptlab.recipes.tables import columns, row
from adaptlab.recipes.wang2023 import settings as paper
from adaptlab.reproductions.claim import Claim, NoLarger
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.studies.study import StudySpec

TWO: Members = {**paper.FIXED, "ways": 2}
"""The task of the other recipes, told apart from the next."""
FOUR: Members = {**paper.FIXED, "ways": 4}
"""Four labels, each demonstrated once; the base was pretrained on two."""
LABELS = "four labels"
IN_CONTEXT = "in-context, one demonstration per label"
ALONE, THREE = "base alone", "in-context, 3 demonstrations"
REWEIGHTED, REWEIGHTED_THREE = "re-weighted, 4 demonstrations", "re-weighted, 3 demonstrations"
LORA = "LoRA, as many parameters, no demonstrations"
LORA_SITE = "blocks.3.attn.v"
"""At rank 1, a matrix of 32 × 32 has 64 parameters; so have 4 layers, heads and demonstrations."""


@RECIPES.register("wang2023/reweighting")
def reweighting() -> Recipe:
    """Return the recipe: trained factors on attention to label words."""
    return Recipe(
        name="wang2023/reweighting",
        title="Anchor re-weighting",
        question="Do trained factors on the attention to label words improve in-context learning?",
        source=f"{paper.SOURCE}, section 4.1 and table 1",
        versions=paper.VERSIONS,
        base_models=("episodes",),
        presets={"quick": _quick()},
        tables=_tables(),
        claims=(*paper.in_context_claims(), *_claims()),
        notes={
            "quick": f"{paper.QUICK_NOTE}Published means of four data sets for GPT2-XL: 51.90 % "
            "with one demonstration per class, 46.87 with five (three for AGNews), which do not "
            "fit into the context here, and 68.64 with one and re-weighting. The paper trains on "
            "four items per class for ten epochs at one rate, 0.01; here, training items are "
            "drawn without end for 400 steps of 16, at four rates. LoRA at one matrix has the 64 "
            "parameters of re-weighting. Four labels are more than the "
            "base was pretrained on. With three demonstrations of two labels, one label is shown "
            "twice. It took 12 minutes on two busy cores, and 35 for the base, which is shared "
            "with wang2023/isolation.",
        },
    )


def _tables() -> tuple[PublishedTable, ...]:
    return (
        PublishedTable(
            title="Published: means of four data sets; measured: four labels",
            source=f"{paper.SOURCE}, table 1, GPT2-XL",
            columns=columns((LABELS,), (FOUR,)),
            rows=(
                row(ALONE, of=ALONE, task=FOUR),
                row(IN_CONTEXT, 51.90, of=paper.IN_CONTEXT, task=FOUR),
                row(REWEIGHTED, 68.64, of=REWEIGHTED, task=FOUR),
                row(LORA, of=LORA, task=FOUR),
            ),
        ),
        PublishedTable(
            title="Accuracy on episodes",
            source="not in the paper, which has other data",
            columns=columns(
                (paper.RIGHT, paper.PERMUTED, paper.QUERY), (paper.EPISODES, paper.CONTROL, TWO)
            ),
            rows=(row(paper.BASE),),
        ),
        PublishedTable(
            title="Two labels; with three demonstrations, one of them is shown twice",
            source="not in the paper",
            columns=columns((paper.QUERY,), (TWO,)),
            rows=(
                row(f"{ALONE}, two labels", of=ALONE, task=TWO),
                row(paper.IN_CONTEXT, of=paper.IN_CONTEXT, task=TWO),
                row(THREE, of=THREE, task=TWO),
                row(REWEIGHTED_THREE, of=REWEIGHTED_THREE, task=TWO),
            ),
        ),
    )


def _claims() -> tuple[Claim, ...]:
    return (
        claim(
            paper.VERSION,
            "reweighting-beats-in-context",
            "With one demonstration per class, re-weighting is better than in-context learning.",
            above(REWEIGHTED, IN_CONTEXT, LABELS, 0.0),
            given=[
                *paper.USES_DEMONSTRATIONS,
                at_most(ALONE, LABELS, 0.35),
                at_least(REWEIGHTED, LABELS, 0.5),
            ],
        ),
        claim(
            paper.VERSION,
            "reweighting-beats-lora",
            "Not tested in the paper, which has no other method that trains: re-weighting is "
            "better than LoRA of as many trained parameters, which sees no demonstrations.",
            above(REWEIGHTED, LORA, LABELS, 0.0),
            in_paper=False,
            given=[
                *paper.USES_DEMONSTRATIONS,
                at_least(REWEIGHTED, LABELS, 0.5),
                NoLarger(row=REWEIGHTED, other=LORA),
            ],
        ),
        claim(
            paper.VERSION,
            "reweighting-balances",
            "Not tested in the paper, which shows each class equally often: re-weighting is better "
            "than in-context learning if one of two labels is shown twice.",
            above(REWEIGHTED_THREE, THREE, paper.QUERY, 0.0),
            in_paper=False,
            given=[*paper.USES_DEMONSTRATIONS, at_least(REWEIGHTED_THREE, paper.QUERY, 0.6)],
        ),
    )


def _quick() -> StudySpec:
    rates: Members = {"learning_rates": [0.01, 0.03, 0.1, 0.3]}
    return study(
        "wang2023-reweighting",
        bases=[paper.episodes_base()],
        tasks=[TWO, FOUR],
        methods=[
            method(ALONE, "frozen"),
            method(paper.IN_CONTEXT, "in_context", demonstrations=4),
            method(THREE, "in_context", demonstrations=3, tasks=[TWO]),
            method(
                REWEIGHTED,
                "anchor_reweighting",
                demonstrations=4,
                tasks=[FOUR],
                tuning=rates,
            ),
            method(
                REWEIGHTED_THREE,
                "anchor_reweighting",
                demonstrations=3,
                tasks=[TWO],
                tuning=rates,
            ),
            method(
                LORA,
                "lora",
                rank=1,
                sites=(LORA_SITE,),
                tasks=[FOUR],
                tuning={"learning_rates": [0.003, 0.01, 0.03, 0.1]},
            ),
        ],
        budget={"context_tokens": 20},
        samples=paper.SAMPLES,
        training={"steps": 400, "batch_size": 16},
        tuning={"validation_samples": 640},
    )
