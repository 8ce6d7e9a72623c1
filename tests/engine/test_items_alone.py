"""Logits of an item alone, in a batch, and in another order.

Every architecture has them without an adaptation and with learned positions, by words and by a
head.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.engine.library_models import HEADLESS, MODELS, architecture
from tests.engine.published import gpt2, llama, mistral, qwen2
from tests.engine.running import local
from tests.engine.text_models import ENCODERS, HEAD_TASK, folder_maker, head_job
from tests.texts import CLASSIFICATION, Stored, reviews, stored, without
from torch import Tensor

from adaptlab.engine.items.datasets import read_datasets
from adaptlab.engine.items.texts import texts_of
from adaptlab.engine.models.base_weights import BaseWeights
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import make_plan
from adaptlab.engine.training.allocate import allocate
from adaptlab.weights.model_folder import check_folder
from adaptlab.weights.placed_folder import PlacedFolder

MIDDLE = 17
"""A length that some items have and others exceed."""
SHORT, LONG = [1.0, 1.1, 1.3], [1.0, 4.0, 9.0]
LONGROPE = {"type": "longrope", "short_factor": SHORT, "long_factor": LONG, "rope_theta": 100.0}
OTHERS: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: gpt2(n_positions=64),
    "llama": llama,
    "mistral-window": lambda: mistral(sliding_window=48),
    "qwen2": qwen2,
    "phi3-longrope": architecture(
        "Phi3ForCausalLM", "Phi3Config", rope_parameters=LONGROPE,
        original_max_position_embeddings=MIDDLE,
    ),
    "llama-longrope": lambda: llama(
        rope_parameters={**LONGROPE, "factor": 4.0}, original_max_position_embeddings=MIDDLE
    ),
    "llama-yarn": lambda: llama(
        rope_parameters={"rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0,
                         "original_max_position_embeddings": 16},
    ),
    "qwen3-dynamic": architecture(
        "Qwen3ForCausalLM", "Qwen3Config", head_dim=8,
        rope_parameters={"rope_type": "dynamic", "factor": 4.0, "rope_theta": 100.0},
        max_position_embeddings=44,
    ),
}  # fmt: skip
WORD_TASK = without(
    CLASSIFICATION,
    label={"field": "label", "words": {"neg": " bad", "pos": " quite good"}},
    tokens={"longest": 44, "answer": 12},
)
AS_HEADS = dict(HEAD_TASK)
BY_HEAD = (*OTHERS, *MODELS, *HEADLESS)
BY_WORDS = tuple(name for name in (*OTHERS, *MODELS) if name not in ENCODERS)
CASES = [
    *((name, "head", method) for name in BY_HEAD for method in ("lora", "soft_prompt")),
    *((name, "words", method) for name in BY_WORDS for method in ("lora", "prefix_tuning")),
]
ON_FUSED = {"name": "lora", "sites": ["qkv"]}
"""LoRA for GPT-NeoX, which has no site of queries alone."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    records = [
        {**record, "text": " ".join([record["text"]] * (1 + place % 3))}
        for place, record in enumerate(reviews(160))
    ]
    return stored(tmp_path_factory.mktemp("data"), records)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], PlacedFolder]:
    return folder_maker(tmp_path_factory.mktemp("models"), OTHERS)


def adapted(data: Stored, folder: PlacedFolder, scored: str, method: Any) -> Model:
    """Return a model with random tensors of a method, far from the base."""
    family = check_folder(folder.path).family
    task = AS_HEADS if scored == "head" else WORD_TASK
    budget = {"trainable_parameters": 2000}
    resolved = head_job(data, family, task=task, method=method, budget=budget, seeds=1)
    contents = read_datasets(resolved, (local(data.path),), folder)
    plan = make_plan(resolved, "cpu", contents.lists, contents.texts)
    base = BaseWeights((), folder).read(plan, plan.spec.base_replicates, plan.dtype)
    start = allocate(plan.trained_shapes, plan.replicate_seeds, base, plan.dtype).tensors
    generator = torch.Generator().manual_seed(5)
    trained = {
        name: tensor.detach() + 0.3 * torch.randn(tensor.shape, generator=generator).double()
        for name, tensor in start.items()
    }
    return Model(plan, base, trained)


def logits(model: Model, records: Tensor) -> list[Tensor]:
    """Return the logits [R, M, V] of each record's answer."""
    items = texts_of(model.plan.task).items(records.unsqueeze(0))  # pyright: ignore[reportArgumentType]
    with torch.no_grad():
        found = model.answers(items)
    counted = items.counted
    answered = [
        items.targets.shape[-1] if counted is None else int(counted[0, place].sum())
        for place in range(len(records))
    ]
    return [found[:, place, :count] for place, count in enumerate(answered)]


@pytest.mark.long("every combination", but="each")
@pytest.mark.parametrize(("name", "scored", "method"), CASES)
def test_an_item_has_the_logits_that_it_has_alone(
    name: str,
    scored: str,
    method: str,
    data: Stored,
    folder_of: Callable[[str], PlacedFolder],
) -> None:
    sited = ON_FUSED if (name, method) == ("gpt-neox", "lora") else method
    model = adapted(data, folder_of(name), scored, sited)
    texts = texts_of(model.plan.task)  # pyright: ignore[reportArgumentType]
    records = texts.of_split["test"][:12]
    lengths = texts.read[records].tolist()
    assert min(lengths) < MIDDLE < max(lengths), "items of one kind would show nothing"
    together, turned = logits(model, records), logits(model, records.flip(0))[::-1]
    for place in range(len(records)):
        (alone,) = logits(model, records[place : place + 1])
        assert (together[place] - alone).abs().max() < 1e-9
        assert (turned[place] - alone).abs().max() < 1e-9
