"""Words of a list as tokens, and their translations."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from adaptlab.engine.items.digits import hash_of
from adaptlab.engine.plugins import ENGINE_QUESTIONS, ENGINE_TASKS
from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.dataset import Triple, WordList
from adaptlab.tasks.word_translation import Target, WordTranslation


@dataclass(frozen=True)
class _Table:
    """Questions [W, N]; their hashes [W], sorted, with answers [W, M]."""

    questions: Tensor
    hashes: Tensor
    answers: Tensor


@ENGINE_QUESTIONS.register("word_translation")
def questions(task: WordTranslation, device: torch.device) -> Tensor:
    """Return the English words."""
    return _table(_Asked.of(task, device)).questions


@ENGINE_TASKS.register("word_translation")
def answer(task: WordTranslation, inputs: Tensor, draws: Tensor) -> Tensor:
    """Return the translations of the inputs; `InvalidSpec` if not listed."""
    table = _table(_Asked.of(task, inputs.device))
    asked = hash_of(inputs)
    place = torch.searchsorted(table.hashes, asked).clamp(max=len(table.hashes) - 1)
    if not bool((table.hashes[place] == asked).all()):
        detail = f"Not every input is one of the {task.questions().listed}, padded and separated."
        raise InvalidSpec(Problem("/capture/attention/inputs", "not_in_the_list", detail))
    return table.answers[place]


@dataclass(frozen=True)
class _Asked:
    """The key of a table; word lists are compared by their digests."""

    words: WordList
    longest: int
    count: int
    target: Target
    device: torch.device

    @classmethod
    def of(cls, task: WordTranslation, device: torch.device) -> "_Asked":
        longest, count = task.asked()
        return cls(task.word_list(), longest, count, task.target, device)


@lru_cache(maxsize=8)  # some megabytes at most; every batch needs the same one
def _table(asked: _Asked) -> _Table:
    triples = asked.words.chosen(asked.longest, asked.count)
    token = {sign: place for place, sign in enumerate(asked.words.characters)}
    english = [[token[sign] for sign in triple.english] for triple in triples]
    others = [[token[sign] for sign in _counterpart(t, asked.target)] for t in triples]
    separator, end = len(token), len(token) + 1
    rows = _padded(english, end, asked.longest + 1)
    rows[:, -1] = separator
    hashes, order = hash_of(rows).sort()
    answers = _padded(others, end, asked.longest + 1)[order]
    return _Table(*(tensor.to(asked.device) for tensor in (rows, hashes, answers)))


def _counterpart(triple: Triple, target: Target) -> str:
    if target == "spanish":
        return triple.spanish
    return triple.german if target == "german" else triple.german[::-1]


def _padded(words: Sequence[Sequence[int]], padding: int, places: int) -> Tensor:
    """Return the words as rows [W, places], each padded with `padding`."""
    return torch.tensor([[*word, *[padding] * (places - len(word))] for word in words])
