"""Shallow and deep visual prompts against tuning of the weights."""

from adaptlab.recipes.claim_builders import above, at_least, claim
from adaptlab.recipes.studies import Members, method, study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import ClaimRole, NoLarger, PaperClaim, PlainTest
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.studies.study import StudySpec

SOURCE = "Jia et al. (ECCV 2022)"
VERSION = "eccv"
NEW: Members = {"name": "digit_images", "digits": (5, 6, 7, 8, 9)}
DIGITS = "digits 5 to 9"
DEEP, SHALLOW = "VPT-deep", "VPT-shallow"
HEAD, FULL, LORA = "head only", "full fine-tuning", "LoRA"
ROWS = 4
"""Rows of a deep prompt per layer; a shallow one of as many parameters has four times as many."""
BASE: Members = {"kind": "import", "name": "digits-vit", "folder": "models/digits-vit"}
"""The folder that `examples/pretrain_digit_images.py` writes."""
ALL = 10_000
"""More than there are test images, so all are scored."""


@RECIPES.register("jia2022/visual-prompts")
def visual_prompts() -> Recipe:
    """Return the recipe: five new digits for a ViT that knows five others."""
    return Recipe(
        name="jia2022/visual-prompts",
        title="Visual prompts",
        question="Do learned tokens adapt a model of images better than tuning its weights?",
        source=f"{SOURCE}, table 1",
        versions={VERSION: "ECCV 2022"},
        stand_ins={"quick": "a four-layer ViT of width 64 that knows digits"},
        base_models=("digits-vit",),
        presets={"quick": _quick()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "A ViT of four layers and width 64 that knows the digits 0 to 4, in images of "
            "8 × 8 pixels, instead of ViT-B/16 pretrained on ImageNet-21k. The paper's figures, "
            "means over tasks of FGVC and VTAB-1k, are left out, because they could not be checked "
            "here. It is one model, so intervals are over seeds of the adaptation, not over "
            "pretrained models. Make it with `python examples/pretrain_digit_images.py "
            "FOLDER/digits-vit` and start the server with `ADAPTLAB_MODEL_ROOTS=models=FOLDER`; "
            "workers need `adaptlab[images]`. Prompts and LoRA at query and value have 1,024 "
            "parameters each, and every method trains the head's 325. All train for 600 steps of "
            "16 images at a constant rate and try four rates, chosen on 53 validation images. The "
            "paper places prompts behind the class token, adaptlab before it, which is the same "
            "without a mask. About 8 minutes on two cores.",
        },
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Accuracy on digits 5 to 9",
        source=f"{SOURCE}, table 1, has other data and no LoRA",
        columns=columns((DIGITS,), (NEW,)),
        rows=(
            row(FULL, None, of=FULL),
            row(HEAD, None, of=HEAD),
            row(SHALLOW, None, of=SHALLOW),
            row(DEEP, None, of=DEEP),
            row(LORA, of=LORA),
        ),
    )


def _claims() -> tuple[PaperClaim, ...]:
    return (
        _ahead("deep-beats-full-fine-tuning", "Deep prompts beat full fine-tuning.", DEEP, FULL),
        _ahead("deep-beats-shallow", "Deep prompts beat shallow ones.", DEEP, SHALLOW),
        _ahead("deep-beats-head-only", "Deep prompts beat tuning of the head alone.", DEEP, HEAD),
        _ahead(
            "shallow-beats-head-only",
            "Shallow prompts beat tuning of the head alone.",
            SHALLOW,
            HEAD,
        ),
        _ahead(
            "deep-beats-lora",
            "Deep prompts beat LoRA of the same size.",
            DEEP,
            LORA,
            NoLarger(row=LORA, other=DEEP),
            role="own",
        ),
    )


def _ahead(
    name: str, text: str, row: str, other: str, *given: PlainTest, role: ClaimRole = "paper"
) -> PaperClaim:
    """Return the claim of an order, of a method that has learned the digits."""
    learned = at_least(row, DIGITS, 0.5)
    return claim(
        VERSION,
        name,
        text,
        above(row, other, DIGITS, 0.0),
        role=role,
        given=[learned, *given],
    )


def _quick() -> StudySpec:
    prompts: Members = {"learning_rates": [3e-3, 1e-2, 3e-2, 0.1]}
    return study(
        "jia2022-visual-prompts",
        bases=[BASE],
        tasks=[NEW],
        methods=(
            method(DEEP, "prefix_tuning", length=ROWS, side="input", tuning=prompts),
            method(SHALLOW, "soft_prompt", length=4 * ROWS, tuning=prompts),
            method(HEAD, "head_only", tuning={"learning_rates": [1e-3, 3e-3, 1e-2, 3e-2]}),
            method(
                LORA,
                "lora",
                rank=1,
                sites=("attn.q", "attn.v"),
                tuning={"learning_rates": [1e-3, 3e-3, 1e-2, 3e-2]},
            ),
            method(
                FULL,
                "full_finetuning",
                tuning={"learning_rates": [1e-4, 3e-4, 1e-3, 3e-3]},
            ),
        ),
        budget=1349,
        samples=ALL,
        training={"steps": 600, "batch_size": 16, "schedule": "constant"},
    )
