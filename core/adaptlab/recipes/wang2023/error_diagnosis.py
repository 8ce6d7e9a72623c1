"""Section 4.3: confusion predicted by the keys of label words."""

from adaptlab.recipes.wang2023 import settings as paper
from adaptlab.reproductions.recipe import RECIPES, Recipe

CHECK = "error_diagnosis"


@RECIPES.register("wang2023/error-diagnosis")
def error_diagnosis() -> Recipe:
    """Return the recipe: distances of keys and confusion of classes."""
    return Recipe(
        name="wang2023/error-diagnosis",
        title="Error diagnosis by keys",
        question="Are classes with similar keys of label words confused?",
        source=f"{paper.SOURCE}, section 4.3 and figure 6",
        versions=paper.VERSIONS,
        base_models=("episodes",),
        presets={"quick": paper.quick("wang2023-error-diagnosis", {"name": CHECK})},
        tables=paper.accuracies(),
        claims=(
            *paper.in_context_claims(),
            paper.on_label_words(
                CHECK,
                "rho",
                "close-keys-are-confused",
                "The closer the keys at the label words of two classes, the more the classes are "
                "confused.",
            ),
        ),
        notes={
            "quick": f"{paper.QUICK_NOTE}The paper shows heat maps of six classes of TREC and no "
            "correlation. Here there are eight classes, two in each episode, so 28 pairs; keys are "
            "those of the third of four layers, as it takes layer 32 of 48. Confusion is the mean "
            "normalised probability of the wrong label: the paper's AUC is 1 for every pair of a "
            "model without errors. About 8 minutes on two busy cores; the base is shared with "
            "wang2023/isolation.",
        },
    )
