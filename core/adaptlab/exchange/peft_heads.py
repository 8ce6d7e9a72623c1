"""Trained heads for classes in PEFT, which saves a whole module."""

import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from adaptlab.errors import NoPeftForm
from adaptlab.exchange.peft_tensors import MODULES
from adaptlab.exchange.plugins import Numbers, PeftForm
from adaptlab.plugins.family import Family
from adaptlab.plugins.shapes import HEAD_SITE

SAVED = "modules_to_save"
MODULE = "score"
"""The head's name in every `…ForSequenceClassification` of a decoder."""
OF_PROMPTS = frozenset({"PREFIX_TUNING", "PROMPT_TUNING"})
"""Types that do not wrap the modules of the base model."""
README = """This adapter has a trained head for classes with a bias. The models of transformers have
one without, so give the model such a head before the adapter is loaded; otherwise the bias is
dropped without a word:

```python
import torch
from peft import PeftModel
from transformers import AutoModelForSequenceClassification

base = AutoModelForSequenceClassification.from_pretrained(BASE, num_labels={classes})
base.score = torch.nn.Linear(base.score.in_features, {classes})
model = PeftModel.from_pretrained(base, FOLDER)
```

The classes are, in the order of the outputs: {labels}.
"""
"""What users of the folder need to know."""


def check_head(family: Family) -> None:
    """Raise `NoPeftForm` if no head of `transformers` reads what ours reads."""
    if family.image() is not None:
        raise NoPeftForm(
            "PEFT names the modules of a model of images as the installed transformers does, which "
            "differs by version. Download the checkpoint as it is."
        )
    if family.attends_to_all():
        raise NoPeftForm(
            "The head reads the mean of the states of all tokens, and the heads for classes of "
            "encoders in transformers read the first one through a pooler. Download the checkpoint "
            "as it is, or adapt a decoder."
        )


def readme(labels: Sequence[str]) -> bytes:
    """Return the README of a folder whose head answers with these labels."""
    listed = ", ".join(map(json.dumps, labels))
    text = README.replace("{classes}", str(len(labels))).replace("{labels}", listed)
    return text.encode()


def with_head(form: PeftForm, head: Mapping[str, Numbers]) -> PeftForm:
    """Return an adapter of a decoder with its trained head, weight and bias.

    `head` has the tensors of `ModelShape.class_head`.
    """
    place = "base_model." if form.config["peft_type"] in OF_PROMPTS else MODULES
    saved = form.config.get(SAVED)
    others: list[JsonValue] = [*saved] if isinstance(saved, list) else []
    config = {**form.config, "task_type": "SEQ_CLS", SAVED: [*others, MODULE]}
    tensors = {
        f"{place}{MODULE}.{name.removeprefix(f'{HEAD_SITE}.')}": tensor
        for name, tensor in head.items()
    }
    return PeftForm(config, {**form.tensors, **tensors})
