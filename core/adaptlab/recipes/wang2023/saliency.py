"""Section 2.1: saliency that flows into label words, and from them."""

from adaptlab.recipes.wang2023 import settings as paper
from adaptlab.reproductions.claim import PaperClaim
from adaptlab.reproductions.recipe import RECIPES, Recipe

CHECK = "saliency"


@RECIPES.register("wang2023/saliency")
def saliency() -> Recipe:
    """Return the recipe: saliency of attention, layer by layer."""
    return Recipe(
        name="wang2023/saliency",
        title="Saliency of label words",
        question="Does information flow from the text into label words, and then to the query?",
        source=f"{paper.SOURCE}, section 2.1 and figure 3",
        versions=paper.VERSIONS,
        stand_ins=paper.STAND_INS,
        base_models=("episodes",),
        presets={
            "quick": paper.quick("wang2023-saliency", {"name": CHECK}),
            "text": paper.text("wang2023-saliency", {"name": CHECK}),
        },
        tables=paper.accuracies(),
        claims=(*paper.in_context_claims(CHECK), *_claims()),
        notes={
            "quick": f"{paper.QUICK_NOTE}Four layers are few for a crossover in the middle. In the "
            "last layer only the query's end has a gradient, so labels are compared there with the "
            "other tokens that the query reads, and the fall of the flow into labels ends at the "
            "layer before it. About 8 minutes on two busy cores; the base is shared with "
            "wang2023/isolation.",
            "text": f"{paper.TEXT_NOTE}About 30 minutes on two cores.",
        },
        needs={"text": paper.NEEDS},
    )


def _claims() -> tuple[PaperClaim, ...]:
    return (
        paper.on_label_words(
            CHECK,
            "first-layer",
            "text-to-labels-first",
            "In the first layer, more saliency flows from the text into label words than from "
            "label words to the query.",
        ),
        paper.on_label_words(
            CHECK,
            "first-layer.others",
            "labels-more-than-others",
            "In the first layer, more saliency flows into label words than between other tokens.",
        ),
        paper.on_label_words(
            CHECK,
            "into-labels",
            "flow-into-labels-falls",
            "The share of saliency that flows into label words falls in deeper layers.",
        ),
        paper.on_label_words(
            CHECK,
            "last-layer",
            "labels-to-query-last",
            "In the last layer, label words pass more saliency to the query than other tokens do.",
        ),
    )
