"""The published model and the film reviews of `text` presets."""

from adaptlab.recipes.studies import Members
from adaptlab.reproductions.preset_needs import Need

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
KINDS = ("animal", "body", "food", "person", "plant", "time")
"""Categories of WordNet whose names are one token of most tokenisers."""
GLOSSES: Members = {
    "name": "text_classification",
    "dataset": "six-glosses",
    "prompt": "{text}:",
    "label": {"field": "label", "words": {kind: f" {kind}" for kind in KINDS}},
    "tokens": {"longest": 16},
    "splits": {"validation": 0.1, "test": 0.4, "by": "text"},
}
"""Short glosses of nouns (Miller 1995), which stand for the questions of TREC's six classes."""
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


def glosses() -> Need:
    """Return the need of labelled glosses."""
    name, table = "six-glosses", ".adaptlab-models/six-glosses.csv"
    return Need(
        kind="dataset",
        name=name,
        description=(
            "records with a `text` of at most about 12 tokens and a `label` that is one of "
            f"{', '.join(KINDS)}"
        ),
        commands=(
            *MAKE,
            "apt-get download wordnet-base",
            "dpkg -x wordnet-base_*.deb .adaptlab-models/wordnet",
            "python examples/wordnet_glosses.py --six "
            f".adaptlab-models/wordnet/usr/share/wordnet/data.noun {table} "
            ".adaptlab-models/data-models/smollm2/tokenizer.json",
            f"adaptlab datasets upload {name} {table}",
        ),
    )


def _imported(name: str, description: str) -> Need:
    return Need(
        kind="base_model",
        name=name,
        description=description,
        commands=(*MAKE, SERVE, f"adaptlab base-models import {name} models/{name} --wait"),
    )
