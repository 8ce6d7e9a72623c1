"""Published models with random weights and a tokeniser of their own."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from tests.engine.library_models import HEADLESS, MODELS
from tests.texts import (
    CLASSIFICATION,
    MASK_OF_PIECES,
    Stored,
    a_byte_pair_tokeniser,
    a_word_piece_tokeniser,
    reviews,
    without,
)
from transformers import PreTrainedModel

from adaptlab.plugins.family import Family
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab.specs.spec import AdaptSpec
from adaptlab.weights.model_folder import check_folder, fingerprint
from adaptlab.weights.placed_folder import PlacedFolder

HEAD_TASK = without(
    CLASSIFICATION, prompt="{text}", label={"field": "label"}, score="head", tokens={"longest": 32}
)
VOCABULARY = 320
METHODS: tuple[str | dict[str, object], ...] = (
    "lora",
    "prefix_tuning",
    {"name": "prefix_tuning", "side": "key_value"},
    "soft_prompt",
    "ia3",
    "bitfit",
    "full_finetuning",
    {"name": "combine", "parts": ["lora", "soft_prompt"]},
)
"""Methods that read texts, each in its usual form; prefixes in both."""
NO_BIASES = ("modernbert", "qwen3")
ENCODERS = (*HEADLESS, "bert", "roberta", "distilbert", "modernbert")


def folder_maker(
    root: Path, more: Mapping[str, Callable[[], PreTrainedModel]] = MODELS
) -> Callable[[str], PlacedFolder]:
    """Return a maker of folders, each made once, `more` models included."""
    texts = [record["text"] for record in reviews(60)]
    made: dict[str, PlacedFolder] = {}

    def folder(name: str) -> PlacedFolder:
        if name not in made:
            torch.manual_seed(3)
            model = {**HEADLESS, **MODELS, **more}[name]()
            model.resize_token_embeddings(VOCABULARY)
            for parameter in model.parameters():
                if parameter.dim() > 1:  # norms and biases stay as they are
                    parameter.data = 0.3 * torch.randn_like(parameter)
            if name in ENCODERS:
                model.config.mask_token_id = MASK_OF_PIECES
            model.save_pretrained(root / name)
            kind = a_word_piece_tokeniser if name in ENCODERS else a_byte_pair_tokeniser
            (root / name / "tokenizer.json").write_bytes(kind(texts))
            files = fingerprint(check_folder(root / name))
            made[name] = PlacedFolder(path=root / name, name=name, files=files)
        return made[name]

    return folder


def head_job(data: Stored, family: Family, **changes: Any) -> ResolvedAdapt:
    """Return an adaptation of a model for a task with classes."""
    facts = BaseModelFacts(name="base", digest="0" * 64, family=family, task=None, replicates=1)
    spec = {
        "base_model": "base",
        "task": HEAD_TASK,
        "method": "lora",
        "budget": {"trainable_parameters": 400},
        "training": {"steps": 6, "batch_size": 4, "precision": "float64"},
        "tuning": {"learning_rates": [0.01, 0.03]},
        "seeds": 2,
        **changes,
    }
    return resolve(AdaptSpec.model_validate(spec), facts, data.datasets)


def each_method_on(
    *names: str, more: tuple[str, ...] = ()
) -> list[tuple[str, str | dict[str, object]]]:
    """Return the models of these names with every method that they allow."""
    return [
        (name, method)
        for name in names
        for method in (*METHODS, *more)
        if name not in NO_BIASES or method != "bitfit"
    ]
