"""The published model and the film reviews of `text` presets."""

from adaptlab.recipes.studies import Members
from adaptlab.reproductions.needs import Need

DECODER, FURTHER, DATASET = "smollm2", "smollm2-reviews", "short-polarity"
REVIEWS: Members = {
    "name": "text_classification",
    "dataset": DATASET,
    "prompt": "{text} It was",
    "label": {"field": "label", "words": {"negative": " terrible", "positive": " great"}},
    "tokens": {"longest": 16},
    "splits": {"validation": 0.1, "test": 0.4, "by": "text"},
}
"""Sentences of film reviews (Pang, Lee 2005), in the words of docs/results/real-prompts."""
ON_REVIEWS: Members = {"name": "text_classification"}
"""What a column says of the task, whose dataset the user may choose."""
MAKE = (
    "pip install gguf==0.19.0",
    "python examples/smollm2_folders.py .adaptlab-models/data",
)
SERVE = "ADAPTLAB_MODEL_ROOTS=models=.adaptlab-models/data-models adaptlab up"


def decoder() -> Need:
    """Return the need of a published decoder."""
    return _imported(
        DECODER,
        "an imported decoder that continues English texts, such as SmolLM2-135M-Instruct",
    )


def further_trained() -> Need:
    """Return the need of another decoder, to which prompts are carried."""
    return _imported(
        FURTHER,
        "another imported decoder, such as SmolLM2-135M-Instruct after 30 further steps on longer "
        "sentences of the same kind",
    )


def reviews() -> Need:
    """Return the need of labelled sentences."""
    return Need(
        kind="dataset",
        name=DATASET,
        description=(
            "records with a `text` of at most about 12 tokens and the `label` negative or positive"
        ),
        commands=(
            *MAKE,
            f"adaptlab datasets upload {DATASET} .adaptlab-models/data-models/{DATASET}.csv",
        ),
    )


def _imported(name: str, description: str) -> Need:
    return Need(
        kind="base_model",
        name=name,
        description=description,
        commands=(*MAKE, SERVE, f"adaptlab base-models import {name} models/{name} --wait"),
    )
