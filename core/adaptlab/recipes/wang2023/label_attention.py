"""Section 2.3: attention to label words as a score of the answer."""

from adaptlab.recipes.wang2023 import settings as paper
from adaptlab.reproductions.claim import PaperClaim
from adaptlab.reproductions.recipe import RECIPES, Recipe

CHECK = "label_attention"


@RECIPES.register("wang2023/label-attention")
def label_attention() -> Recipe:
    """Return the recipe: AUC of attention to labels, layer by layer."""
    return Recipe(
        name="wang2023/label-attention",
        title="Attention to label words",
        question="Does the query attend to the label that it answers?",
        source=f"{paper.SOURCE}, section 2.3 and figure 5",
        versions=paper.VERSIONS,
        stand_ins=paper.STAND_INS,
        base_models=("episodes",),
        presets={
            "quick": paper.quick("wang2023-label-attention", {"name": CHECK}),
            "text": paper.text("wang2023-label-attention", {"name": CHECK}),
        },
        tables=paper.accuracies(),
        claims=(*paper.in_context_claims(CHECK), *_claims()),
        notes={
            "quick": f"{paper.QUICK_NOTE}In the paper, AUCROC is about 0.8 in deep layers. It is "
            "over the labels of all inputs there, and here within each episode, because episodes "
            "differ in their labels. About 8 minutes on two busy cores; the base is shared with "
            "wang2023/isolation.",
            "text": f"{paper.TEXT_NOTE}"
            "Here, too, AUC is within each item: of both labels, one has more attention. About 30 "
            "minutes on two cores.",
        },
        needs={"text": paper.NEEDS},
    )


def _claims() -> tuple[PaperClaim, ...]:
    return (
        paper.on_label_words(
            CHECK,
            "last-layer",
            "attention-tells-the-answer",
            "In the last layer, the query attends more to the label that it answers than to "
            "others.",
        ),
        paper.on_label_words(
            CHECK,
            "rises",
            "attention-tells-more-in-deep-layers",
            "Attention tells the answer better in the last layer than in the first.",
        ),
        paper.on_label_words(
            CHECK,
            "late",
            "later-layers-contribute-most",
            "Most of what attention tells of the answer is in the later half of the layers.",
        ),
    )
