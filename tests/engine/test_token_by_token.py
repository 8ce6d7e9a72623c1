"""Decoding with kept keys and values equals decoding by whole passes.

The logits of every answer token are those of one pass over prompt and answer, for every method on
our own decoders and for every architecture of the library, alone and in a batch.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.engine.library_models import MODELS, architecture
from tests.engine.making import (
    ANYWHERE,
    SMALL_OF_EACH,
    VARIANTS,
    adaptation,
    base_tensors,
    method_pairs,
    perturbed,
    sized,
    trainables,
)
from tests.engine.published import gpt2, llama, qwen2
from tests.engine.running import local
from tests.engine.text_models import ENCODERS, folder_maker, head_job
from tests.texts import COMPLETION, Stored, reviews, stored, without
from torch import Tensor

from adaptlab.engine.items.datasets import read_datasets
from adaptlab.engine.items.item_texts import item_texts
from adaptlab.engine.items.task_items import scored_items
from adaptlab.engine.measuring.evaluate import judged
from adaptlab.engine.models.base_weights import BaseWeights
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import make_plan
from adaptlab.engine.training.allocate import allocate
from adaptlab.weights.model_folder import check_folder
from adaptlab.weights.placed_folder import PlacedFolder

ITEMS = 7
SHORT, LONG = [1.0, 1.1, 1.3], [1.0, 4.0, 9.0]
LONGROPE = {"type": "longrope", "short_factor": SHORT, "long_factor": LONG, "rope_theta": 100.0}


def phi3(short: int) -> Callable[[], Any]:
    """Return a maker of a model with other frequencies beyond `short`."""
    return architecture(
        "Phi3ForCausalLM", "Phi3Config", rope_parameters=LONGROPE,
        original_max_position_embeddings=short,
    )  # fmt: skip


OTHERS: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: gpt2(n_positions=64),
    "llama": llama,
    "qwen2": qwen2,
    "phi3-longrope": phi3(120),
    "phi3-longer": phi3(28),
    "qwen3-dynamic": architecture(
        "Qwen3ForCausalLM", "Qwen3Config", head_dim=8,
        rope_parameters={"rope_type": "dynamic", "factor": 4.0, "rope_theta": 100.0},
        max_position_embeddings=64,
    ),
}  # fmt: skip
CHANGING = "phi3-longer"
"""A model that turns all keys again when an item grows beyond a length."""
DECODERS = [name for name in (*OTHERS, *MODELS) if name not in (*ENCODERS, CHANGING)]
TASK = without(COMPLETION, tokens={"longest": 56, "answer": 8})
OF_TEXTS: tuple[Any, ...] = (
    "lora", "prefix_tuning", {"name": "prefix_tuning", "side": "key_value"}, "soft_prompt", "ia3",
    "attention_bias", {"name": "combine", "parts": ["lora", "soft_prompt"]}, "in_context",
    "full_finetuning",
)  # fmt: skip
UNCACHED = {"anchor_reweighting", "llama_adapter", "ntk_attention", "prefix_tuning_plus"}
"""Methods that change attention between certain tokens."""


def logits(model: Model, items: Any, places: Tensor, *, attached: bool = True) -> tuple[Any, Any]:
    """Return the logits of answers by kept keys and values, and by one pass.

    Only those of tokens that an answer has room for; the first is None where there is no cache.
    """
    texts = item_texts(model.plan.task)
    room = texts.room(places)
    begun = model.begun(items, room, attached=attached)
    if begun is None:
        return None, None
    begun.cache.settle(torch.zeros_like(begun.cache.positions))
    steps = [begun.logits[:, :, 0]]
    for _ in range(int(room.max()) - 1):
        steps.append(begun.after(steps[-1].argmax(-1)))
    found = torch.stack(steps, 2)
    answers = found.argmax(-1)
    whole = model.answers(texts.drafted(places, items, answers), attached=attached)
    is_read = torch.arange(found.shape[2]) < room.unsqueeze(-1)
    return found[:, is_read], whole[:, : len(places), : found.shape[2]][:, is_read]


def of_digits(name: str, family: str) -> Model:
    configured = sized(name).model_dump(mode="json")
    plan = adaptation(configured, family=SMALL_OF_EACH[family])
    base = base_tensors(plan)
    return Model(plan, base, perturbed(plan, trainables(plan, base).tensors))


PAIRS = [
    (name, family)
    for name, family in method_pairs((*ANYWHERE, *VARIANTS))
    if family in ("minigpt", "gpt2", "llama", "transformers")
]


@pytest.mark.long("every combination", but="each")
@pytest.mark.parametrize(("name", "family"), PAIRS)
@torch.no_grad()
def test_every_method_has_the_logits_of_a_whole_pass(name: str, family: str) -> None:
    model = of_digits(name, family)
    ((places, items),) = scored_items(model.plan.task, "test", ITEMS, ITEMS, torch.device("cpu"))
    found, whole = logits(model, items, places)
    assert (found is None) == (name in UNCACHED)
    if found is not None:
        assert (found - whole).abs().max() < 1e-9
    alone, whole = logits(model, items, places, attached=False)
    assert (alone - whole).abs().max() < 1e-9


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    records = [
        {**record, "text": " ".join([record["text"]] * (1 + place % 2))}
        for place, record in enumerate(reviews(160))
    ]
    return stored(tmp_path_factory.mktemp("data"), records)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], PlacedFolder]:
    return folder_maker(tmp_path_factory.mktemp("models"), OTHERS)


def of_texts(data: Stored, folder: PlacedFolder, method: Any) -> Model:
    family = check_folder(folder.path).family
    budget = {"trainable_parameters": 2000}
    resolved = head_job(data, family, task=TASK, method=method, budget=budget)
    contents = read_datasets(resolved, (local(data.path),), folder)
    plan = make_plan(resolved, "cpu", contents.lists, contents.texts)
    base = BaseWeights((), folder).read(plan, plan.spec.base_replicates, plan.dtype)
    start = allocate(plan.trained_shapes, plan.replicate_seeds, base, plan.dtype).tensors
    return Model(plan, base, perturbed(plan, start))


def of_first(model: Model, count: int = ITEMS) -> tuple[Tensor, Any]:
    ((places, items),) = scored_items(model.plan.task, "test", count, count, torch.device("cpu"))
    return places, items


CASES = [
    *((name, "lora") for name in DECODERS if name != "gpt-neox"),
    ("gpt-neox", {"name": "lora", "sites": ["qkv"]}),
    *((name, "prefix_tuning") for name in DECODERS),
]


@pytest.mark.long("every combination", but=8)
@pytest.mark.parametrize(("name", "method"), CASES, ids=str)
@torch.no_grad()
def test_every_architecture_has_the_logits_of_a_whole_pass(
    name: str, method: Any, data: Stored, folder_of: Callable[[str], PlacedFolder]
) -> None:
    model = of_texts(data, folder_of(name), method)
    places, items = of_first(model)
    found, whole = logits(model, items, places)
    assert (found - whole).abs().max() < 1e-9
    for place in range(ITEMS):
        some = slice(place, place + 1)
        alone, same = logits(model, items.part(some), places[some])
        assert (alone - same).abs().max() < 1e-9


@torch.no_grad()
def test_changing_frequencies_and_masks_that_are_filled_in_have_no_cache(
    data: Stored, folder_of: Callable[[str], PlacedFolder]
) -> None:
    model = of_texts(data, folder_of(CHANGING), "lora")
    places, items = of_first(model)
    texts = item_texts(model.plan.task)
    assert model.begun(items, texts.room(places)) is None
    found = judged(model, model.plan.task, "test", ITEMS, 4, with_answers=True)
    assert [len(row) for row in found.told] == [ITEMS] * 4
    filled = of_digits("lora", "formal")
    places, items = of_first(filled)
    assert filled.begun(items, item_texts(filled.plan.task).room(places)) is None


@torch.no_grad()
def test_answers_of_all_lengths_are_those_of_whole_passes(
    data: Stored, folder_of: Callable[[str], PlacedFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = of_texts(data, folder_of("llama"), "lora")
    task = model.plan.task
    together = judged(model, task, "test", 30, 4, with_answers=True).told
    assert len({len(answer) for row in together for (answer,) in row}) > 2
    monkeypatch.setattr("adaptlab.engine.measuring.evaluate.items_kept_at_once", lambda *_: 4)
    assert judged(model, task, "test", 30, 4, with_answers=True).told == together
    monkeypatch.setattr(Model, "begun", lambda *_, **__: None)
    assert judged(model, task, "test", 30, 4, with_answers=True).told == together
