"""Test items after demonstrations, as the checks on label words read them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from adaptlab.engine.items.digits import make_items
from adaptlab.engine.items.task_items import ITEM_SEED
from adaptlab.engine.items.texts import texts_of
from adaptlab.engine.kernels.counter import constant, random_bits, stream
from adaptlab.engine.models.demonstrating import Demonstration, of_seed, written_context
from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.text_task import TextTask
from adaptlab.tasks.episodes import Episodes
from adaptlab.text.encoding import begun
from adaptlab.theory.observation import FrozenBase
from adaptlab.theory_checks.on_demonstrations import OnDemonstrations

MOST_ELEMENTS = 2**27
"""Elements of logits, states and patterns of one pass: 1 GiB in float64."""
STATES = 16
"""States of the model's width that a layer keeps for each token, roughly."""
MOST_AT_ONCE = 256


@dataclass(frozen=True)
class Asked:
    """Items [B] after D demonstrations each, and as many tokens of each kind.

    Attributes:
        tokens: the items with their demonstrations [B, T], padded on the right.
        ends: the row that predicts each answer [B].
        words: the tokens of all K labels that can be answered [K].
        right: the place of the right one among them [B].
        query: the place of the first token of all questions.
        text: the places of other tokens of the demonstrations [W], from which random ones are
            drawn.
        places: positions [B, D] by kind: `labels`, `random`, `separators` (the token before each
            label) and `after` (the one after it).
    """

    tokens: Tensor
    ends: Tensor
    words: Tensor
    right: Tensor
    query: int
    text: Tensor
    places: Mapping[str, Tensor]

    @property
    def count(self) -> int:
        """B, the number of items."""
        return len(self.tokens)

    @property
    def demonstrations(self) -> int:
        """D, the number of demonstrations of an item."""
        return self.places["labels"].shape[1]

    def parts(self, base: FrozenBase) -> Iterator[slice]:
        """Yield parts of the items whose passes fit in memory."""
        shape, length = base.family.shape(), self.tokens.shape[1]
        per_layer = length * (shape.heads or 1) + STATES * shape.width
        elements = length * (shape.vocabulary + shape.layers * per_layer)
        most = max(1, min(MOST_AT_ONCE, MOST_ELEMENTS // elements))
        for first in range(0, self.count, most):
            yield slice(first, min(first + most, self.count))


def asked(check: OnDemonstrations, seed: int, *, permuted: bool = False) -> Asked:
    """Return the test items of a check; `seed` draws demonstrations and words.

    If `permuted`, the labels of the demonstrations of each item are shuffled.

    Raises:
        InvalidSpec: a label word of a task on texts has several tokens, or there are too few
            short training items.
    """
    if isinstance(check.task, Episodes):
        return asked_episodes(check.task, check.items, seed, permuted=permuted)
    assert isinstance(check.task, TextTask)
    return _asked_texts(check, check.task, seed, permuted=permuted)


def asked_episodes(task: Episodes, samples: int, seed: int, *, permuted: bool = False) -> Asked:
    """Return the first test episodes."""
    labels = "permuted" if permuted else task.labels
    task = task.model_copy(update={"labels": labels})
    items = make_items(task, "test", torch.tensor([ITEM_SEED]), 0, samples)
    places = torch.tensor(task.also_trained())
    text = [
        place
        for label in task.also_trained()
        for place in range(label - task.phrase - 1, label - 1)
    ]
    tokens = items.tokens[0]
    return Asked(
        tokens=tokens,
        ends=torch.full((samples,), tokens.shape[1] - 1),
        words=torch.arange(task.first_label, task.separator),
        right=items.targets[0, :, 0] - task.first_label,
        query=task.demonstrations * task.demonstration_length,
        text=torch.tensor(text),
        places=_kinds(places, torch.tensor(text), samples, seed),
    )


def random_places(purpose: str, text: Tensor, samples: int, count: int, *seeds: int) -> Tensor:
    """Return `count` different places [B, count] of `text` for every item."""
    cpu = torch.device("cpu")
    order = random_bits(
        constant(stream(purpose), cpu),
        *(constant(seed, cpu) for seed in seeds),
        torch.arange(samples).unsqueeze(1),
        torch.arange(len(text)),
    ).argsort(-1)
    return text[order[:, :count]]


def _asked_texts(check: OnDemonstrations, task: TextTask, seed: int, *, permuted: bool) -> Asked:
    texts = texts_of(task)
    if texts.choices is None or int(texts.choices[1].max()) > 1:
        detail = (
            "The check follows one position per label word, and a word has several tokens of the "
            "base model's tokeniser. Use words of one token."
        )
        raise InvalidSpec(Problem("/checks/0/task/label/words", "several_tokens", detail))
    assert texts.labels is not None
    start = begun(task.source().tokeniser)
    shown = of_seed(check.in_context, task, task, seed)
    records = texts.of_split["test"][: check.items]
    context = written_context([shown], start)
    items = context.before(texts.trained(records.unsqueeze(0)))
    assert items.answer_rows is not None
    labels, text = _places(shown, start)
    _check_words(text, len(labels))
    tokens = items.tokens[0]
    if permuted:
        tokens = _permuted(tokens, labels, seed)
    return Asked(
        tokens=tokens,
        ends=items.answer_rows[0, :, 0] + items.first,
        words=texts.choices[0][:, 0],
        right=texts.labels[records],
        query=context.longest,
        text=text,
        places=_kinds(labels, text, len(records), seed),
    )


def _places(shown: Sequence[Demonstration], start: int) -> tuple[Tensor, Tensor]:
    """Return the places of label words, and of words of the text."""
    firsts = [0, *accumulate(map(len, shown))]
    labels = [first + one.label.start for first, one in zip(firsts, shown, strict=False)]
    begins = [start, *firsts[1:]]
    text = [
        place
        for begin, label in zip(begins, labels, strict=False)
        for place in range(begin, label - 1)
    ]
    return torch.tensor(labels), torch.tensor(text, dtype=torch.int64)


def _check_words(text: Tensor, needed: int) -> None:
    """Raise `InvalidSpec` if there are fewer words than labels."""
    if len(text) < needed:
        detail = (
            f"The demonstrations have {len(text)} tokens beside labels and formatting, fewer than "
            f"their {needed} labels. Use a longer prompt."
        )
        raise InvalidSpec(Problem("/checks/0/task/prompt", "too_few_words", detail))


def _permuted(tokens: Tensor, labels: Tensor, seed: int) -> Tensor:
    """Return tokens [B, T] whose labels are in another order in every item."""
    places = random_places("permuted labels", labels, len(tokens), len(labels), seed)
    return tokens.scatter(1, labels.expand(len(tokens), -1), tokens.gather(1, places))


def _kinds(labels: Tensor, text: Tensor, samples: int, seed: int) -> Mapping[str, Tensor]:
    places = labels.expand(samples, -1)
    random = random_places("isolation/random", text, samples, len(labels), seed)
    return {"labels": places, "random": random, "separators": places - 1, "after": places + 1}
