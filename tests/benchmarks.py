"""Documents of three standard tasks, in the form that lm-eval expects."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.texts import byte_pairs
from tokenizers import processors

from adaptlab.records.rendered_items import Rendering

THINGS = ("cat", "dog", "fish", "bird", "tree", "stone")
ENDINGS = ("is grey", "is grey and old", "füttert die Vögel", "喝茶", "sings")
TASKS = ("arc_easy", "hellaswag", "lambada_openai")
TEXTS = "wikitext"
"""The task whose texts are read in windows."""


def write_documents(folder: Path) -> Mapping[str, Path]:
    """Write the documents of each task to a folder of its own.

    There are choices that are the beginning of others, texts that are not ASCII, questions that no
    small model can read whole, empty contexts, and items with three to five choices.
    """
    files: dict[str, Iterable[dict[str, Any]]] = {
        "arc_easy/train": (_arc(number, "t") for number in range(9)),
        "arc_easy/test": (_arc(number, "e") for number in range(14)),
        "hellaswag/train": (_hellaswag(number, "Cooking") for number in range(7)),
        "hellaswag/validation": (_hellaswag(number, "Gärtnern") for number in range(11)),
        "lambada_openai/test": ({"text": text} for text in _passages()),
        f"{TEXTS}/train": ({"page": page} for page in THINGS),
        f"{TEXTS}/test": ({"page": page} for page in _pages()),
    }
    for place, documents in files.items():
        path = folder / f"{place}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps(document, ensure_ascii=False) for document in documents)
        path.write_text("".join(f"{line}\n" for line in lines))
    return {task: folder / task for task in (*TASKS, TEXTS)}


def _arc(number: int, split: str) -> dict[str, Any]:
    count = 3 + number % 3
    texts = [*ENDINGS[:count]]
    question = f"Which of the {THINGS[number % 6]}s {split}{number} sings"
    if number % 5 == 4:
        question = " ".join([question] * 6)
    labels = ["A", "B", "C", "D", "E"][:count]
    return {
        "id": f"{split}{number}",
        "question": question,
        "choices": {"text": texts, "label": labels},
        "answerKey": labels[number % count],
    }


def _hellaswag(number: int, activity: str) -> dict[str, Any]:
    thing = THINGS[number % 6]
    return {
        "ind": number,
        "activity_label": activity,
        "ctx_a": f"The {thing} [title] sees  {number} others.",
        "ctx_b": "then the other one",
        "endings": [f"{ending} by the {thing}." for ending in ENDINGS[:4]],
        "label": str(number % 4),
    }


def _passages() -> Iterable[str]:
    for number in range(10):
        first, second = THINGS[number % 6], THINGS[(number + 2) % 6]
        yield f"The {first} and the {second} met at number {number}, and the {second}"
    yield "stone"
    yield "Die Vögel und der Hund trinken 喝茶 mit Kätzchen"


def _pages() -> Iterable[str]:
    """Yield texts of one window and of several, the first with marks to drop."""
    yield " = Trees = \n The tree @-@ like stone , of 1 @,@ 000 years . \n "
    passages = " ".join(_passages())
    yield from (f"{passages} {thing} " * (1 + place) for place, thing in enumerate(THINGS[:4]))


def a_plain_tokeniser(*, begins: bool) -> bytes:
    """Return a `tokenizer.json` of byte pairs that writes no token at the end.

    If it `begins`, token 0 is before every text.
    """
    tokenizer = byte_pairs([*_passages(), *ENDINGS, *THINGS])
    if begins:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 0)]
        )
    return tokenizer.to_str().encode()


def rendering(task: str, **changes: Any) -> Rendering:
    """Return the origin of items that no harness has rendered."""
    members = {
        "task": task, "output": "multiple_choice", "shots": 0, "seed": 1, "harness": "0",
        "version": "1", "yaml": "0" * 16, "data": "1" * 16, "choices": 3, "chance": 0.4,
        "answer": 7, **changes,
    }  # fmt: skip
    return Rendering.model_validate(members)
