"""Section 4.3: confusion predicted by the keys of label words."""

from adaptlab.recipes.tables import row
from adaptlab.recipes.texts import GLOSSES, decoder, glosses
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
        stand_ins=paper.STAND_INS,
        base_models=("episodes",),
        presets={
            "quick": paper.quick("wang2023-error-diagnosis", {"name": CHECK}),
            "text": paper.text(
                "wang2023-error-diagnosis", {"name": CHECK}, task=GLOSSES, shown=paper.GLOSSES_SHOWN
            ),
        },
        tables=paper.accuracies(row(paper.IN_CONTEXT_SIX, of=paper.IN_CONTEXT_SIX)),
        claims=(
            *paper.in_context_claims(CHECK),
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
            "text": f"{paper.TEXT_MODEL}900 short glosses of nouns in six categories of WordNet "
            "instead of TREC's questions in six classes: 100 test items, with one demonstration of "
            "each category, in five sets. That is 15 pairs of classes, whose labels have the same "
            "keys for all items of a set; the layer is the twentieth of thirty. "
            f"{paper.TEXT_PREMISE}Not yet measured. About 30 minutes on two cores.",
        },
        needs={"text": (decoder(), glosses())},
    )
