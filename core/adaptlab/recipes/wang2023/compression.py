"""Section 4.2: queries that read the states of anchors only."""

from adaptlab.recipes.wang2023 import settings as paper
from adaptlab.reproductions.claim import PaperClaim
from adaptlab.reproductions.recipe import RECIPES, Recipe

CHECK = "compression"


@RECIPES.register("wang2023/compression")
def compression() -> Recipe:
    """Return the recipe: demonstrations compressed to some states."""
    return Recipe(
        name="wang2023/compression",
        title="Compressed demonstrations",
        question="Do the states of label words stand for whole demonstrations?",
        source=f"{paper.SOURCE}, section 4.2 and table 2",
        versions=paper.VERSIONS,
        stand_ins=paper.STAND_INS,
        base_models=("episodes",),
        presets={
            "quick": paper.quick("wang2023-compression", {"name": CHECK}),
            "text": paper.text("wang2023-compression", {"name": CHECK, "draws": 5}),
        },
        tables=paper.accuracies(),
        claims=(*paper.in_context_claims(CHECK), *_claims()),
        notes={
            "quick": f"{paper.QUICK_NOTE}Published for GPT2-XL, as label loyalty, word loyalty and "
            "accuracy in per cent: all demonstrations 100, 100 and 51.90; Hidden_anchor 79.47, "
            "62.17 and 45.04; Text_anchor 51.05, 36.65 and 38.77; Hidden_random 48.96, 5.59 and "
            "39.96; the best of 20 draws 57.52, 4.49 and 41.72. The authors' code keeps random "
            "words from draw to draw, which is not repeated here; Hidden_random is the mean of the "
            "draws. A control that the paper lacks keeps line breaks instead of labels. About 9 "
            "minutes on two busy cores; the base is shared with wang2023/isolation.",
            "text": f"{paper.TEXT_NOTE}"
            "Random words are drawn 5 times instead of 20. About 60 minutes on two cores.",
        },
        needs={"text": paper.NEEDS},
    )


def _claims() -> tuple[PaperClaim, ...]:
    return (
        paper.on_label_words(
            CHECK,
            "random",
            "anchors-more-than-random",
            "States of label words and formatting keep more answers than those of formatting and "
            "as many random words.",
        ),
        paper.on_label_words(
            CHECK,
            "random-top",
            "anchors-more-than-best-draw",
            "States of label words and formatting keep more answers than those of the best of 20 "
            "draws of random words.",
        ),
        paper.on_label_words(
            CHECK,
            "text",
            "anchors-more-than-text",
            "States of label words and formatting keep more answers than a text of the same "
            "tokens.",
        ),
        paper.on_label_words(
            CHECK,
            "labels-alone",
            "labels-more-than-line-breaks",
            "States of label words alone, which failed in the paper, keep more answers than those "
            "of the line breaks after them.",
            role="own",
        ),
    )
