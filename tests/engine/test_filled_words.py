"""Label words that encoders fill in equal those of the library, by hand."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.engine.judging import outcomes
from tests.engine.making import Remembering, perturbed, trainables
from tests.engine.running import local, run
from tests.engine.text_jobs import agreements
from tests.engine.text_models import each_method_on, folder_maker, head_job
from tests.texts import (
    CLASSIFICATION,
    MASK_OF_PIECES,
    THINGS,
    Stored,
    a_word_piece_tokeniser,
    reviews,
    stored,
    without,
)
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from adaptlab.engine.items.datasets import read_datasets
from adaptlab.engine.items.task_items import make_items
from adaptlab.engine.items.texts import items_of_step, texts_of
from adaptlab.engine.items.word_choice import ChoiceItems
from adaptlab.engine.measuring.answering import given_answers
from adaptlab.engine.measuring.evaluate import judged
from adaptlab.engine.models.base_weights import BaseWeights
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.engine.training.loss import mean_losses
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import Evaluated
from adaptlab.weights.model_folder import check_folder
from adaptlab.weights.placed_folder import PlacedFolder

FILLING = ("bert", "roberta", "distilbert", "modernbert")
SAMPLES = 24
RECORDS = reviews(160)
TASKS: Mapping[str, dict[str, Any]] = {
    "one": without(
        CLASSIFICATION,
        label={"field": "thing", "words": {thing: f" {thing}" for thing in THINGS}},
        tokens={"longest": 48, "answer": 6},
    ),
    "several": without(
        CLASSIFICATION,
        label={"field": "thing", "words": {thing: f" now {thing} 7" for thing in THINGS}},
        tokens={"longest": 48, "answer": 6},
    ),
    "sentiment": without(
        CLASSIFICATION, label={"field": "label", "words": {"neg": " sad", "pos": " fine"}}
    ),
}
BY_LENGTH = ("one", "several")
UNMEASURED = ("bitfit", "full_finetuning", "head_only")
"""Methods without a budget."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), RECORDS)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], PlacedFolder]:
    return folder_maker(tmp_path_factory.mktemp("models"))


def planned(
    data: Stored,
    folder: PlacedFolder,
    task: Mapping[str, Any],
    method: str | dict[str, object] = "lora",
    **members: Any,
) -> Plan:
    budget = {"trainable_parameters": None if method in UNMEASURED else 700}
    family = check_folder(folder.path).family
    resolved = head_job(data, family, task=dict(task), method=method, budget=budget, **members)
    contents = read_datasets(resolved, (local(data.path),), folder)
    return make_plan(resolved, "cpu", contents.lists, contents.texts)


def adapted(plan: Plan, folder: PlacedFolder) -> Model:
    """The model with trained tensors far from their start."""
    base = BaseWeights((), folder).read(plan, plan.spec.base_replicates, plan.dtype)
    return Model(plan, base, perturbed(plan, trainables(plan, base).tensors))


class Library:
    """The library's model and tokeniser of a folder."""

    def __init__(self, folder: PlacedFolder) -> None:
        auto: Any = transformers.AutoModelForMaskedLM
        self._model = auto.from_pretrained(folder.path, dtype=torch.float32).eval()
        self._tokeniser = PreTrainedTokenizerFast(
            tokenizer_file=str(folder.path / "tokenizer.json")
        )
        self._first = 2 if "roberta" in folder.name else 0  # where it counts positions from

    def word(self, prompt: str, word: str) -> list[int]:
        """The tokens of a word behind a prompt."""
        prompted, whole = (self._tokeniser(t)["input_ids"] for t in (prompt, prompt + word))
        assert whole[: len(prompted) - 1] == prompted[:-1]
        return whole[len(prompted) - 1 : -1]

    @torch.no_grad()
    def logs(self, prompt: str, masks: int, after: str = "") -> Tensor:
        """The log-probabilities [M, V] at masks behind a prompt."""
        *asked, end = self._tokeniser(prompt)["input_ids"]
        rest = self._tokeniser(after, add_special_tokens=False)["input_ids"]
        tokens = torch.tensor([[*asked, *[MASK_OF_PIECES] * masks, *rest, end]])
        place = torch.arange(self._first, self._first + tokens.shape[-1])
        numbered = {"position_ids": place.unsqueeze(0)} if self._first else {}
        logits = self._model(input_ids=tokens, **numbered).logits[0]
        return logits[len(asked) : len(asked) + masks].log_softmax(-1)

    def scores(self, prompt: str, words: Mapping[str, str]) -> Tensor:
        """The log-probability [K] of every word."""
        tokens = [self.word(prompt, word) for word in words.values()]
        logs = self.logs(prompt, len(tokens[0]))
        return torch.stack([logs[range(len(word)), word].sum() for word in tokens])


def record_of(plan: Plan, place: int) -> dict[str, str]:
    texts = texts_of(plan.task)  # pyright: ignore[reportArgumentType]
    return RECORDS[int(texts.of_split["test"][place])]


@pytest.mark.parametrize("task", BY_LENGTH)
@pytest.mark.parametrize("name", FILLING)
def test_masked_logits_are_those_of_the_library(
    name: str, task: str, data: Stored, folder_of: Callable[[str], PlacedFolder]
):
    folder = folder_of(name)
    plan = planned(
        data, folder, TASKS[task], training={"precision": "float32", "steps": 1, "batch_size": 4}
    )
    model, library = adapted(plan, folder), Library(folder)
    items = make_items(plan.task, "test", torch.tensor([0]), 0, SAMPLES)
    logits = model.answers(items, attached=False)
    assert logits.dtype == torch.float32
    assert isinstance(items, ChoiceItems)
    chosen = items.choose(lambda other: model.answers(other, attached=False))
    masks, words = items.targets.shape[-1], TASKS[task]["label"]["words"]
    assert masks == {"one": 1, "several": 3}[task]
    preferred = set[int]()
    for place in range(SAMPLES):
        record = record_of(plan, place)
        prompt = f"{record['text']}. It is"
        expected = library.logs(prompt, masks)
        found = logits[0, place].log_softmax(-1)
        assert (found - expected).abs().max() < 1e-5 * expected.abs().max()
        scores = library.scores(prompt, words)
        assert int(chosen[0, place]) == int(scores.argmax())
        preferred.add(int(scores.argmax()))
        right = list(words).index(record["thing"])
        losses = items.token_losses(logits)[0, place].sum()
        assert abs(losses + scores[right]) < 1e-5 * abs(scores[right])
    assert len(preferred) > 1, "one answer to all would show nothing"


@pytest.mark.parametrize("task", BY_LENGTH)
def test_logits_are_those_before_the_text_after_the_masks(
    task: str, data: Stored, folder_of: Callable[[str], PlacedFolder]
):
    folder, after = folder_of("roberta"), " now 7"
    plan = planned(data, folder, without(TASKS[task], after=after))
    model, library = adapted(plan, folder), Library(folder)
    items = make_items(plan.task, "test", torch.tensor([0]), 0, SAMPLES)
    logits, masks = model.answers(items, attached=False), items.targets.shape[-1]
    for place in range(SAMPLES):
        prompt = f"{record_of(plan, place)['text']}. It is"
        found = logits[0, place].log_softmax(-1).float()
        expected, without_it = (library.logs(prompt, masks, text) for text in (after, ""))
        assert (found - expected).abs().max() < 1e-5 * expected.abs().max()
        assert (found - without_it).abs().max() > 1e-3


@pytest.mark.parametrize("task", BY_LENGTH)
def test_calibration_subtracts_the_score_behind_the_empty_prompt(
    task: str, data: Stored, folder_of: Callable[[str], PlacedFolder]
):
    folder, words = folder_of("bert"), TASKS[task]["label"]["words"]
    plan = planned(data, folder, without(TASKS[task], calibration="empty_input"))
    model, library = adapted(plan, folder), Library(folder)
    right = outcomes(model, plan.task, "test", SAMPLES, 1, attached=False)
    given = given_answers(model, plan.task, SAMPLES, 1, attached=False)
    alone, changed = library.scores(". It is", words), 0
    for place in range(SAMPLES):
        record = record_of(plan, place)
        plain = library.scores(f"{record['text']}. It is", words)
        label = list(words)[int((plain - alone).argmax())]
        assert bool(right[0, place]) == (label == record["thing"])
        assert given[0][place].label == label
        changed += int(plain.argmax() != (plain - alone).argmax())
    assert changed > 0, "calibration that changes nothing would show nothing"


@pytest.mark.long("every combination", but=4)
@pytest.mark.parametrize(
    ("name", "method"), each_method_on("bert", "modernbert", more=("head_only",)), ids=str
)
def test_neither_padding_nor_other_replicates_change_anything(
    name: str,
    method: str | dict[str, object],
    data: Stored,
    folder_of: Callable[[str], PlacedFolder],
):
    folder = folder_of(name)
    plan = planned(data, folder, TASKS["several"], method)
    model = adapted(plan, folder)
    items = make_items(plan.task, "test", torch.tensor([0]), 0, 6)
    assert items.read is not None
    assert items.answer_rows is not None
    together = model.answers(items.padded(48))
    assert together.shape == (4, 6, 3, 320)
    assert (together[0] - together[1]).abs().max() > 1e-3
    for place, length in enumerate(items.read[0].tolist()):
        own = items.part(slice(place, place + 1))
        short = replace(own, tokens=own.tokens[..., :length])
        for row in range(4):
            trained = {key: tensor[[row]] for key, tensor in model.trained.items()}
            alone = replace(model, trained=trained).answers(short)[0, 0]
            assert (alone - together[row, place]).abs().max() < 1e-9


def test_a_lora_equals_the_library_with_merged_weights(
    data: Stored, folder_of: Callable[[str], PlacedFolder]
):
    """The whole path of an adapter, by the model that `transformers` computes."""
    folder = folder_of("bert")
    method: dict[str, object] = {"name": "lora", "sites": ["q"]}
    plan = planned(data, folder, TASKS["several"], method)
    model, library = adapted(plan, folder), Library(folder)
    layers = library._model.double().bert.encoder.layer
    for number, layer in enumerate(layers):
        hook = model.attachments.outputs[f"blocks.{number}.attn.q"]
        width = layer.attention.self.query.weight.shape[0]
        rows = torch.eye(width, dtype=torch.float64).expand(4, 1, -1, -1)
        zero = torch.zeros_like(rows)
        layer.attention.self.query.weight.data += hook(rows, zero)[1, 0].T
    items = make_items(plan.task, "test", torch.tensor([0]), 0, 6)
    logits = model.answers(items)
    for place in range(6):
        expected = library.logs(f"{record_of(plan, place)['text']}. It is", 3)
        found = logits[1, place].log_softmax(-1)
        assert (found - expected).abs().max() < 1e-9 * expected.abs().max()


def test_the_loss_is_that_of_the_right_words_tokens(
    data: Stored, folder_of: Callable[[str], PlacedFolder]
):
    folder = folder_of("modernbert")
    plan = planned(data, folder, TASKS["several"])
    model = adapted(plan, folder)
    items = items_of_step(plan.task, plan.seeds, 5, 3)  # pyright: ignore[reportArgumentType]
    losses = mean_losses(model, items, 4, None)
    logits = model.answers(items)
    for row in range(4):
        logs = logits[row].log_softmax(-1)
        right = logs.gather(-1, items.targets[row // 2].unsqueeze(-1))
        assert abs(losses[row] + right.mean()) < 1e-12
    found = judged(model, plan.task, "validation", 10, 4)
    assert found.loss is not None
    assert found.loss.shape == (4,)
    assert torch.equal(found.right, outcomes(model, plan.task, "validation", 10, 4))


@pytest.mark.parametrize("task", BY_LENGTH)
def test_items_of_full_length_have_the_same_choices(
    task: str, data: Stored, folder_of: Callable[[str], PlacedFolder]
):
    """On a GPU every item has the greatest length."""
    folder = folder_of("bert")
    plan = planned(data, folder, without(TASKS[task], calibration="empty_input"))
    model, texts = adapted(plan, folder), texts_of(plan.task)  # pyright: ignore[reportArgumentType]
    records = texts.of_split["test"][:12].unsqueeze(0)
    short, full = texts.items(records), texts.items(records, is_full=True)
    assert full.tokens.shape[-1] == TASKS[task]["tokens"]["longest"] > short.tokens.shape[-1]
    chosen = [items.choose(model.answers) for items in (full, short)]
    assert chosen[0] is not None
    assert chosen[1] is not None
    assert torch.equal(chosen[0], chosen[1])
    assert torch.equal(
        full.right(model.answers(full), model.answers),
        short.right(model.answers(short), model.answers),
    )
    found = full.token_losses(model.answers(full)).sum(-1)
    assert (found - short.token_losses(model.answers(short)).sum(-1)).abs().max() < 1e-9


@pytest.mark.long("long trainings")
def test_words_are_learned_and_reported(
    data: Stored, folder_of: Callable[[str], PlacedFolder], tmp_path: Path
):
    folder, watching = folder_of("bert"), Remembering()
    spec = planned(
        data,
        folder,
        TASKS["sentiment"],
        "full_finetuning",
        training={"steps": 200, "batch_size": 16, "validations": 1},
        tuning={"learning_rates": [0.01]},
    ).spec
    run(spec, (), tmp_path, watching, "cpu", folder=folder, datasets=(data.path,))
    scores = [event.evaluation for event in watching.of(Evaluated)]
    accuracies = {s.attached: s.correct / s.total for s in scores}
    assert accuracies[True] > 0.85 > accuracies[False]
    assert all(equal == bit for equal, bit in agreements(watching))
    assert Expected.of(spec).problems(watching.events) == ()


def test_the_tokeniser_of_these_tests_has_a_mask():
    tokeniser = a_word_piece_tokeniser(["a"])
    assert b'"[MASK]":3' in tokeniser.replace(b" ", b"")
    assert MASK_OF_PIECES == 3
