"""Section 2.2: label words that cannot read the text before them."""

from adaptlab.recipes.wang2023 import settings as paper
from adaptlab.reproductions.claim import PaperClaim
from adaptlab.reproductions.recipe import RECIPES, Recipe

CHECK = "isolation"
LAYERS = 2
"""Layers that are isolated at either end; the paper isolates 5 of 48, and 1, 3 and 7."""
LAYERS_OF_TEXTS = 3
"""Of 30 layers."""


@RECIPES.register("wang2023/isolation")
def isolation() -> Recipe:
    """Return the recipe: answers while label words read only themselves."""
    return Recipe(
        name="wang2023/isolation",
        title="Isolated label words",
        question="Do label words gather the demonstrations in the first layers?",
        source=f"{paper.SOURCE}, section 2.2 and figure 4",
        versions=paper.VERSIONS,
        stand_ins=paper.STAND_INS,
        base_models=("episodes",),
        presets={
            "quick": paper.quick("wang2023-isolation", {"name": CHECK, "layers": LAYERS}),
            "text": paper.text("wang2023-isolation", {"name": CHECK, "layers": LAYERS_OF_TEXTS}),
        },
        tables=paper.accuracies(),
        claims=(*paper.in_context_claims(CHECK), *_claims()),
        notes={
            "quick": f"{paper.QUICK_NOTE}The first and the last two of four layers are isolated, "
            "where the paper isolates five of 48. Loyalty is that of labels; word loyalty is left "
            "out, because the answers here are labels alone. Controls that the paper lacks isolate "
            "the separators before the labels, and the line breaks after them. About 8 minutes on "
            "two busy cores; the base is shared with wang2023/saliency.",
            "text": f"{paper.TEXT_NOTE}"
            "The first and the last three of 30 layers are isolated, a tenth of them as in the "
            "paper. About 45 minutes on two cores.",
        },
        needs={"text": paper.NEEDS},
    )


def _claims() -> tuple[PaperClaim, ...]:
    return (
        paper.on_label_words(
            CHECK,
            "first-layers.random",
            "labels-matter-in-first-layers",
            "In the first layers, isolated label words change more answers than as many isolated "
            "random words.",
        ),
        paper.on_label_words(
            CHECK,
            "last-layers",
            "first-layers-more-than-last",
            "Isolated label words change more answers in the first layers than in the last ones.",
        ),
        paper.on_label_words(
            CHECK,
            "first-layers.separators",
            "labels-more-than-separators",
            "In the first layers, isolated label words change more "
            "answers than the separators before them.",
            role="own",
        ),
        paper.on_label_words(
            CHECK,
            "first-layers.after",
            "labels-more-than-line-breaks",
            "In the first layers, isolated label words change more answers than the line breaks "
            "after them, which the paper counts as formatting.",
            role="own",
        ),
    )
