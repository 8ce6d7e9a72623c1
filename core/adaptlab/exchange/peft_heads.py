"""Trained heads for classes in PEFT, which saves a whole module."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from adaptlab.errors import NoPeftForm
from adaptlab.exchange.peft_tensors import MODULES
from adaptlab.exchange.plugins import Numbers, PeftForm
from adaptlab.plugins.family import Family
from adaptlab.plugins.shapes import HEAD_SITE

SAVED = "modules_to_save"
OF_PROMPTS = frozenset({"PREFIX_TUNING", "PROMPT_TUNING"})
"""Types that do not wrap the modules of the base model."""


@dataclass(frozen=True, slots=True)
class LibraryHead:
    """A head for classes of `transformers` that reads what ours reads.

    Attributes:
        task_type: the task of its models, as PEFT names it.
        module: its name in every model of that task.
        readme: what users of a folder with it need to know.
    """

    task_type: str
    module: str
    readme: str


OF_DECODERS = LibraryHead(
    "SEQ_CLS",
    "score",
    """This adapter has a trained head for classes with a bias. The models of transformers have
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
""",
)
"""The last token's state is read by every `…ForSequenceClassification` of a decoder."""
OF_ENCODERS = LibraryHead(
    "TOKEN_CLS",
    "classifier",
    """This adapter has a trained head for classes that reads the mean of the states of all tokens.
The head is linear, so that is the mean of its outputs at each token, of which transformers has
models:

```python
import torch
from peft import PeftModel
from transformers import AutoModelForTokenClassification, AutoTokenizer

base = AutoModelForTokenClassification.from_pretrained(BASE, num_labels={classes})
if hasattr(base, "head"):  # ModernBERT has layers there, which adaptlab does not use
    base.head = torch.nn.Identity()
model = PeftModel.from_pretrained(base, FOLDER).eval()
tokens = AutoTokenizer.from_pretrained(BASE)(TEXTS, padding=True, return_tensors="pt")
read = tokens["attention_mask"].unsqueeze(-1)
logits = (model(**tokens).logits * read).sum(1) / read.sum(1)
```

The classes are, in the order of the outputs: {labels}.
""",
)
"""Models of sentences read the first token through a pooler; those of tokens only have the head."""


def library_head(family: Family) -> LibraryHead:
    """Return the head that reads the states that ours reads.

    Raises:
        NoPeftForm: the model is one of images.
    """
    if family.image() is not None:
        raise NoPeftForm(
            "PEFT names the modules of a model of images as the installed transformers does, which "
            "differs by version. Download the checkpoint as it is."
        )
    return OF_ENCODERS if family.attends_to_all() else OF_DECODERS


def readme(head: LibraryHead, labels: Sequence[str]) -> bytes:
    """Return the README of a folder whose head answers with these labels."""
    listed = ", ".join(map(json.dumps, labels))
    text = head.readme.replace("{classes}", str(len(labels))).replace("{labels}", listed)
    return text.encode()


def with_head(form: PeftForm, head: LibraryHead, trained: Mapping[str, Numbers]) -> PeftForm:
    """Return an adapter with its trained head, weight and bias.

    `trained` has the tensors of `ModelShape.class_head`.

    Raises:
        NoPeftForm: the adapter adds positions to an encoder.
    """
    is_prompt = form.config["peft_type"] in OF_PROMPTS
    if is_prompt and head is OF_ENCODERS:
        raise NoPeftForm(
            "PEFT has no learned positions for encoders. Train lora, ia3 or layernorm_tuning, or "
            "download the checkpoint as it is."
        )
    place = "base_model." if is_prompt else MODULES
    saved = form.config.get(SAVED)
    others: list[JsonValue] = [*saved] if isinstance(saved, list) else []
    config = {**form.config, "task_type": head.task_type, SAVED: [*others, head.module]}
    tensors = {
        f"{place}{head.module}.{name.removeprefix(f'{HEAD_SITE}.')}": tensor
        for name, tensor in trained.items()
    }
    return PeftForm(config, {**form.tensors, **tensors})
