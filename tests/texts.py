"""Small datasets of records, and tasks over them."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from adaptlab.plugins.dataset import Datasets
from adaptlab.plugins.text_task import TextTask
from adaptlab.records.facts import RecordsFacts
from adaptlab.records.gathering import Gatherer
from adaptlab.records.record import Record
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab.specs.spec import AdaptSpec, Choice
from adaptlab.text.source import TextSource
from adaptlab.text.tokeniser import ByteTokeniser, Tokeniser
from adaptlab.weights.model_folder import check_folder
from adaptlab.weights.placed_folder import PlacedFolder

GOOD = ("fine", "lovely", "great", "warm")
BAD = ("awful", "poor", "sad", "cold")
THINGS = ("film", "book", "song", "meal", "walk", "road")

CLASSIFICATION: Mapping[str, Any] = {
    "name": "text_classification",
    "dataset": "reviews",
    "prompt": "{text}. It is",
    "label": {"field": "label", "words": {"neg": "-", "pos": "+"}},
    "tokens": {"longest": 40, "answer": 1},
}
COMPLETION: Mapping[str, Any] = {
    "name": "text_completion",
    "dataset": "reviews",
    "prompt": "{text}. Its thing:",
    "answer": {"field": "thing"},
    "tokens": {"longest": 56, "answer": 6},
}


QUIZ: Mapping[str, Any] = {
    "name": "text_classification",
    "dataset": "reviews",
    "prompt": "{question}. It is",
    "label": {"field": "answer", "words": {"A": " {a}", "B": " {b}", "C": " {c}"}},
    "tokens": {"longest": 44, "answer": 12},
}


def quizzes(count: int) -> list[dict[str, str]]:
    """Return records with a question, three choices and a right one."""
    draw = random.Random(11)
    records: list[dict[str, str]] = []
    for number in range(count):
        choices = [f"{word} {draw.choice(THINGS)}" for word in draw.sample(BAD, 3)]
        right = draw.choice((0, 0, 1, 2))
        choices[right] = f"{draw.choice(GOOD)} {draw.choice(THINGS)}"
        question = "what is good" + " now" * draw.randrange(3) + f" {number}"
        records.append(
            {"question": question, **dict(zip("abc", choices, strict=True)), "answer": "ABC"[right]}
        )
    return records


def reviews(count: int) -> list[dict[str, str]]:
    """Return records with a text, its label and its thing; always the same."""
    draw = random.Random(7)
    records: list[dict[str, str]] = []
    for _ in range(count):
        label = draw.choice(("pos", "pos", "neg"))
        word = draw.choice(GOOD if label == "pos" else BAD)
        thing = draw.choice(THINGS)
        text = f"a {word} {thing}" + " now" * draw.randrange(3) + f" {draw.randrange(99)}"
        records.append({"text": text, "label": label, "thing": thing})
    return records


@dataclass(frozen=True)
class Stored:
    """A dataset in a file, with its facts."""

    path: Path
    facts: RecordsFacts

    @property
    def datasets(self) -> Datasets:
        """The datasets that tasks can name."""
        return {self.facts.name: self.facts}

    def source(self, tokeniser: Tokeniser | None = None) -> Mapping[str, TextSource]:
        """Return the content by digest, read as bytes or by a tokeniser."""
        digest = self.facts.digest
        return {digest: TextSource(self.path, digest, tokeniser or ByteTokeniser())}

    def task(self, document: Mapping[str, Any], tokeniser: Tokeniser | None = None) -> TextTask:
        """Return a task over the dataset, with its content."""
        choice = Choice.model_validate(dict(document))
        task = resolve_task(choice, "/task", self.datasets)
        assert isinstance(task, TextTask)
        return task.with_texts(self.source(tokeniser))


def stored(folder: Path, records: Iterable[Record], name: str = "reviews") -> Stored:
    """Write records as the canonical content of a dataset."""
    gatherer = Gatherer()
    path = folder / f"{name}.jsonl"
    with path.open("wb") as file:
        file.writelines(gatherer.lines(records))
    return Stored(path, gatherer.facts(name, gatherer.digest))


def without(document: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a task's document with some members replaced."""
    return {**document, **changes}


def joined(parts: Sequence[int]) -> str:
    """Return byte tokens as text."""
    return ByteTokeniser().text(tuple(parts))


def byte_pairs(texts: Iterable[str]) -> Tokenizer:
    """Return a tokeniser of byte pairs that is learned from texts.

    It writes no token at the ends.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def a_byte_pair_tokeniser(texts: Iterable[str], *, spoiled: bool = False) -> bytes:
    """Return a `tokenizer.json` of byte pairs, learned from texts.

    Token 0 begins every text and token 1 ends one. If `spoiled`, the file asks for truncation and
    padding, as some published ones do.
    """
    tokenizer = byte_pairs(texts)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    if spoiled:
        tokenizer.enable_truncation(8)
        tokenizer.enable_padding(direction="left", length=8)
    return tokenizer.to_str().encode()


SPECIAL_PIECES = ("[UNK]", "[CLS]", "[SEP]", "[MASK]")
MOST_PIECES = 200
_NORMALISER, _PRE_TOKENISER = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
MASK_OF_PIECES = 3
"""The mask of tokenisers of word pieces."""


def a_word_piece_tokeniser(texts: Iterable[str]) -> bytes:
    """Return a `tokenizer.json` of word pieces, learned from texts.

    Token 1 begins every text and token 2 ends one. The library's trainer numbers pieces, and breaks
    ties, in the order of a hash table, which differs from call to call.
    """
    tokenizer = Tokenizer(models.WordPiece(_pieces(texts), unk_token="[UNK]"))
    tokenizer.add_special_tokens([*SPECIAL_PIECES])
    tokenizer.normalizer = _NORMALISER
    tokenizer.pre_tokenizer = _PRE_TOKENISER
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return tokenizer.to_str().encode()


def _pieces(texts: Iterable[str]) -> dict[str, int]:
    """Return special tokens, letters, and what frequent pairs of pieces make."""
    normal = (_NORMALISER.normalize_str(text) for text in texts)
    words = Counter(word for one in normal for word, _ in _PRE_TOKENISER.pre_tokenize_str(one))
    split = {word: [word[0], *(f"##{letter}" for letter in word[1:])] for word in words}
    letters = sorted({piece for parts in split.values() for piece in parts})
    pieces = dict.fromkeys([*SPECIAL_PIECES, *letters])
    while len(pieces) < MOST_PIECES:
        pairs = Counter[tuple[str, str]]()
        for word, parts in split.items():
            for pair in pairwise(parts):
                pairs[pair] += words[word]
        if not pairs:
            break
        first, second = max(pairs, key=lambda pair: (pairs[pair], pair))
        made = first + second.removeprefix("##")
        pieces[made] = None
        split = {word: _merged(parts, first, second, made) for word, parts in split.items()}
    return {piece: number for number, piece in enumerate(pieces)}


def _merged(parts: list[str], first: str, second: str, made: str) -> list[str]:
    found: list[str] = []
    for part in parts:
        if found and (found[-1], part) == (first, second):
            found[-1] = made
        else:
            found.append(part)
    return found


def adaptation_of(folder: PlacedFolder, data: Stored, **members: Any) -> ResolvedAdapt:
    """Return a small adaptation by LoRA of the model in a folder."""
    facts = BaseModelFacts(
        name="base",
        digest="0" * 64,
        family=check_folder(folder.path).family,
        task=None,
        replicates=1,
    )
    spec = {
        "base_model": "base",
        "method": "lora",
        "budget": {"trainable_parameters": 100},
        **members,
    }
    return resolve(AdaptSpec.model_validate(spec), facts, data.datasets)
