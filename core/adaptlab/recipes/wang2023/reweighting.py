"""Section 4.1: attention to label words, scaled by training."""

from adaptlab.recipes.claim_builders import above, at_least, at_most, claim
from adaptlab.recipes.studies import Members, method, study
from adaptlab.recipes.tables import columns, row
from adaptlab.recipes.texts import ON_REVIEWS
from adaptlab.recipes.wang2023 import settings as paper
from adaptlab.reproductions.claim import NoLarger, PaperClaim
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

CHECK = "label_attention"
"""The check whose premises tell whether texts are answered by demonstrations."""
REVIEWS_COLUMN = "film reviews"
ENDING = ", on reviews"
ALONE_ON_TEXTS, IN_CONTEXT_ON_TEXTS = f"{ALONE}{ENDING}", f"{paper.IN_CONTEXT}{ENDING}"
REWEIGHTED_ON_TEXTS, LORA_ON_TEXTS = f"{REWEIGHTED}{ENDING}", f"{LORA}{ENDING}"
LORA_SITE_OF_TEXTS = "blocks.11.attn.q"
"""At rank 1 it has 1,152 parameters in SmolLM2-135M, and re-weighting 30 · 9 · 4 = 1,080."""


@RECIPES.register("wang2023/reweighting")
def reweighting() -> Recipe:
    """Return the recipe: trained factors on attention to label words."""
    return Recipe(
        name="wang2023/reweighting",
        title="Anchor re-weighting",
        question="Do trained factors on the attention to label words improve in-context learning?",
        source=f"{paper.SOURCE}, section 4.1 and table 1",
        versions=paper.VERSIONS,
        stand_ins=paper.STAND_INS,
        base_models=("episodes",),
        presets={"quick": _quick(), "text": _text()},
        tables=_tables(),
        claims=(*paper.in_context_claims(CHECK), *_claims(), *_claims_on_texts()),
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
            "text": f"{paper.TEXT_NOTE}Each of four demonstrations has a factor in every layer and "
            "head, 1,080 in all; LoRA of rank 1 at one matrix in the middle has 1,152 parameters. "
            "Both are trained on 320 drawn reviews, where the paper has ten epochs of eight items. "
            "Several hours on two cores.",
        },
        needs={"text": paper.NEEDS},
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
        PublishedTable(
            title="Film reviews, in the preset `text`",
            source="not in the paper, which has SST-2",
            columns=columns((REVIEWS_COLUMN,), (TWO,), instead=(ON_REVIEWS,)),
            rows=tuple(
                row(method, of=method)
                for method in (
                    ALONE_ON_TEXTS,
                    IN_CONTEXT_ON_TEXTS,
                    REWEIGHTED_ON_TEXTS,
                    LORA_ON_TEXTS,
                )
            ),
        ),
    )


def _claims() -> tuple[PaperClaim, ...]:
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
            presets=("quick",),
        ),
        claim(
            paper.VERSION,
            "reweighting-beats-lora",
            "Against another method that trains: re-weighting is "
            "better than LoRA of as many trained parameters, which sees no demonstrations.",
            above(REWEIGHTED, LORA, LABELS, 0.0),
            role="own",
            given=[
                *paper.USES_DEMONSTRATIONS,
                at_least(REWEIGHTED, LABELS, 0.5),
                NoLarger(row=REWEIGHTED, other=LORA),
            ],
            presets=("quick",),
        ),
        claim(
            paper.VERSION,
            "reweighting-balances",
            "Re-weighting is better than in-context learning if one of two labels is shown twice.",
            above(REWEIGHTED_THREE, THREE, paper.QUERY, 0.0),
            role="own",
            given=[*paper.USES_DEMONSTRATIONS, at_least(REWEIGHTED_THREE, paper.QUERY, 0.6)],
            presets=("quick",),
        ),
    )


def _claims_on_texts() -> tuple[PaperClaim, ...]:
    used = paper.used_on_texts(CHECK)
    return (
        claim(
            paper.VERSION,
            "reweighting-beats-in-context-on-texts",
            "With two demonstrations per class, re-weighting is better than in-context learning.",
            above(REWEIGHTED_ON_TEXTS, IN_CONTEXT_ON_TEXTS, REVIEWS_COLUMN, 0.0),
            given=[*used, at_least(REWEIGHTED_ON_TEXTS, REVIEWS_COLUMN, 0.55)],
            presets=("text",),
        ),
        claim(
            paper.VERSION,
            "reweighting-beats-lora-on-texts",
            "Against another method that trains: re-weighting is "
            "better than LoRA of at least as many trained parameters, which sees no "
            "demonstrations.",
            above(REWEIGHTED_ON_TEXTS, LORA_ON_TEXTS, REVIEWS_COLUMN, 0.0),
            role="own",
            given=[
                *used,
                at_least(REWEIGHTED_ON_TEXTS, REVIEWS_COLUMN, 0.55),
                NoLarger(row=REWEIGHTED_ON_TEXTS, other=LORA_ON_TEXTS),
            ],
            presets=("text",),
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


def _text() -> StudySpec:
    return paper.text(
        "wang2023-reweighting",
        {"name": CHECK},
        method(
            REWEIGHTED_ON_TEXTS,
            "anchor_reweighting",
            **paper.SHOWN,
            tuning={"learning_rates": [0.01, 0.1]},
        ),
        method(
            LORA_ON_TEXTS,
            "lora",
            rank=1,
            sites=(LORA_SITE_OF_TEXTS,),
            tuning={"learning_rates": [0.001, 0.01]},
        ),
        ending=ENDING,
        training={"steps": 40, "batch_size": 8},
    )
