"""Classification of texts by a trained head, on decoders and encoders."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors import safe_open
from tests.engine.making import SMALL, Remembering
from tests.engine.running import local, run
from tests.engine.text_models import (
    ENCODERS,
    HEAD_TASK,
    METHODS,
    each_method_on,
    folder_maker,
    head_job,
)
from tests.texts import CLASSIFICATION, Stored, reviews, stored
from torch import Tensor

from adaptlab.engine.items.datasets import read_datasets
from adaptlab.engine.items.task_items import make_items
from adaptlab.engine.models.base_weights import BaseWeights
from adaptlab.engine.models.library_model import Float64, library_model
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.engine.training.allocate import allocate
from adaptlab.engine.training.loss import mean_losses
from adaptlab.families.gpt2 import GPT2
from adaptlab.families.llama import Llama
from adaptlab.families.transformers import Transformers
from adaptlab.plugins.family import Family
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import AnswersGiven, CheckpointWritten, Evaluated, ItemsShown
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import PretrainSpec
from adaptlab.weights.model_folder import check_folder
from adaptlab.weights.placed_folder import PlacedFolder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), reviews(160))


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], PlacedFolder]:
    return folder_maker(tmp_path_factory.mktemp("models"))


def planned(data: Stored, folder: PlacedFolder, method: str | dict[str, object]) -> Plan:
    family = check_folder(folder.path).family
    fixed = ("bitfit", "full_finetuning")
    budget = {"trainable_parameters": None if method in fixed else 700}
    resolved = head_job(data, family, method=method, budget=budget)
    contents = read_datasets(resolved, (local(data.path),), folder)
    return make_plan(resolved, "cpu", contents.lists, contents.texts)


def adapted(plan: Plan, folder: PlacedFolder) -> Model:
    """The model with random tensors, far from the base."""
    base = BaseWeights((), folder).read(plan, plan.spec.base_replicates, plan.dtype)
    shapes, seeds = plan.trained_shapes, plan.replicate_seeds
    copies = {name: tensor for name, tensor in base.items() if name in shapes}
    start = allocate(shapes, seeds, base, plan.dtype).tensors if copies else {}
    generator = torch.Generator().manual_seed(5)
    trained = {
        name: start.get(name, torch.zeros(1, dtype=plan.dtype)).detach()
        + 0.3 * torch.randn(plan.replicates, *shape.shape, generator=generator, dtype=plan.dtype)
        for name, shape in shapes.items()
    }
    return Model(plan, base, trained)


@pytest.mark.long("every combination", but="each")
@pytest.mark.parametrize(
    ("name", "method"), each_method_on("bert-alone", "modernbert", "qwen3"), ids=str
)
def test_padding_changes_nothing(
    name: str,
    method: str | dict[str, object],
    data: Stored,
    folder_of: Callable[[str], PlacedFolder],
):
    folder = folder_of(name)
    plan = planned(data, folder, method)
    model = adapted(plan, folder)
    _is_not_padded(model)


def _is_not_padded(model: Model) -> None:
    items = make_items(model.plan.task, "test", torch.tensor([0]), 0, 6)
    assert items.read is not None
    assert len(set(items.read.flatten().tolist())) > 1
    together = model.answers(items.padded(32))
    assert together.shape == (4, 6, 1, 2)
    assert (together[0] - together[1]).abs().max() > 1e-3
    for place in range(6):
        alone = items.part(slice(place, place + 1))
        length = int(items.read[0, place])
        row = torch.zeros_like(alone.targets)
        short = replace(
            alone, tokens=alone.tokens[..., :length], answer_rows=row, first=length - 1, length=1
        )
        assert (model.answers(short)[:, 0] - together[:, place]).abs().max() < 1e-9


@pytest.mark.parametrize("name", ENCODERS)
def test_the_head_of_an_encoder_reads_the_mean_of_its_states(
    name: str, data: Stored, folder_of: Callable[[str], PlacedFolder]
):
    folder = folder_of(name)
    model = adapted(planned(data, folder, "head_only"), folder)
    library = transformers.AutoModel.from_pretrained(folder.path, dtype=torch.float64).eval()
    first = 2 if name.startswith("roberta") else 0  # where it counts positions from

    def state(tokens: Tensor) -> Tensor:
        # RoBERTa would number the tokens itself, leaving out the one with the id of padding.
        place = torch.arange(first, first + tokens.shape[-1])
        numbered = {"position_ids": place.unsqueeze(0)} if first else {}
        return library(input_ids=tokens, **numbered).last_hidden_state.mean(1)

    _agrees(model, state)


@pytest.mark.parametrize("name", ["qwen3", "gemma2", "opt", "mixtral"])
def test_the_head_of_a_decoder_reads_its_last_state(
    name: str, data: Stored, folder_of: Callable[[str], PlacedFolder]
):
    folder = folder_of(name)
    model = adapted(planned(data, folder, "head_only"), folder)
    options: dict[str, Any] = {"attn_implementation": "eager", "dtype": torch.float64}
    if name == "mixtral":
        options["experts_implementation"] = "eager"  # the only one that takes float64
    library = transformers.AutoModel.from_pretrained(folder.path, **options).eval()
    _agrees(model, lambda tokens: library(input_ids=tokens).last_hidden_state[:, -1])


@torch.no_grad()
def _agrees(model: Model, state: Callable[[Tensor], Tensor]) -> None:
    """Check logits against a head on a state of the library's model."""
    items = make_items(model.plan.task, "test", torch.tensor([0]), 0, 5)
    found = model.answers(items)
    head, bias = (model.trained[f"unembed.{kind}"] for kind in ("weight", "bias"))
    assert items.read is not None
    alone = model.base_logits(
        items.tokens, items.span, answer_rows=items.answer_rows, read=items.read
    )
    assert torch.equal(model.answers(items, attached=False), alone), "the head was never trained"
    for place, length in enumerate(items.read[0].tolist()):
        with Float64():
            hidden = state(items.tokens[0, place : place + 1, :length])[0]
        expected = head @ hidden + bias
        assert (found[:, place, 0] - expected).abs().max() < 1e-6 * expected.abs().max()


def test_classes_are_shown_as_they_are_scored(
    data: Stored, folder_of: Callable[[str], PlacedFolder], tmp_path: Path
):
    folder, watching = folder_of("bert-alone"), Remembering()
    spec = planned(data, folder, "lora").spec
    run(spec, (), tmp_path, watching, "cpu", folder=folder, datasets=(data.path,))
    (shown,) = watching.of(ItemsShown)
    expected = [item.expected.text for item in shown.items]
    assert set(expected) == {"neg", "pos"}
    evaluated = [event.evaluation for event in watching.of(Evaluated)]
    scores = {(one.replicate, one.attached): one.outcomes for one in evaluated}
    for given in watching.of(AnswersGiven):
        pairs = zip(given.answers, expected, strict=True)
        right = [answer.text == label for answer, label in pairs]
        packed = np.packbits(right).tobytes().hex()
        outcomes = scores[given.replicate, given.attached]
        assert outcomes.startswith(packed[: len(right) // 4])
    assert Expected.of(spec).problems(watching.events) == ()


@pytest.mark.long("every combination", but=3)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_head_is_part_of_what_is_declared_allocated_and_stored(
    method: str | dict[str, object],
    data: Stored,
    folder_of: Callable[[str], PlacedFolder],
    tmp_path: Path,
):
    folder, watching = folder_of("bert-alone"), Remembering()
    spec = planned(data, folder, method).spec
    run(spec, (), tmp_path, watching, "cpu", folder=folder, datasets=(data.path,))
    written = watching.of(CheckpointWritten)
    assert len(written) == 2
    with safe_open(written[0].path, "pt") as file:
        sizes = {
            name: tuple(file.get_slice(name).get_shape())
            for name in file.keys()  # noqa: SIM118 -- it is no mapping
            if name.startswith("unembed")
        }
    assert sizes == {"unembed.weight": (2, 24), "unembed.bias": (2,)}
    assert spec.budget.tensors["unembed.weight"] == 48
    assert spec.budget.trainable_parameters == sum(spec.budget.tensors.values())


def test_trials_of_a_head_alone_share_the_states_of_the_model(
    data: Stored, folder_of: Callable[[str], PlacedFolder], monkeypatch: pytest.MonkeyPatch
):
    folder = folder_of("bert-alone")
    model = adapted(planned(data, folder, "head_only"), folder)
    items = make_items(model.plan.task, "train", model.plan.seeds, 0, 3)
    read: list[int] = []
    library = library_model(folder_family(folder))
    monkeypatch.setattr(library, "logits", _noting(read, library.logits))
    together = model.answers(items)
    assert (read, together.shape) == ([2], (4, 3, 1, 2))
    for replicate in range(4):
        alone = {name: tensor[[replicate]] for name, tensor in model.trained.items()}
        own = items.each(lambda tensor, seed=replicate // 2: tensor[[seed]])
        found = replace(model, trained=alone).answers(own)
        assert (found[0] - together[replicate]).abs().max() < 1e-12


def _noting(read: list[int], logits: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def noted(weights: Any, tokens: Tensor, *others: Any) -> Tensor:
        read.append(len(tokens))
        return logits(weights, tokens, *others)

    return noted


def folder_family(folder: PlacedFolder) -> Transformers:
    family = check_folder(folder.path).family
    assert isinstance(family, Transformers)
    return family


def test_the_head_alone_counts_only_the_head(
    data: Stored, folder_of: Callable[[str], PlacedFolder]
):
    spec = planned(data, folder_of("bert-alone"), "head_only").spec
    assert spec.budget.tensors == {"unembed.weight": 48, "unembed.bias": 2}


def test_a_replicate_in_a_stack_has_the_gradient_of_the_replicate_alone(
    data: Stored, folder_of: Callable[[str], PlacedFolder]
):
    folder = folder_of("modernbert")
    plan = planned(data, folder, "lora")
    model = adapted(plan, folder)
    items = make_items(plan.task, "train", plan.seeds, 0, 3)
    trained = {name: tensor.requires_grad_() for name, tensor in model.trained.items()}
    losses = mean_losses(model, items, plan.replicates, None)
    whole = torch.autograd.grad(losses.sum(), list(trained.values()))
    for replicate in range(plan.replicates):
        alone = {n: t[[replicate]].detach().requires_grad_() for n, t in trained.items()}
        own = items.each(lambda tensor, seed=replicate // plan.trials: tensor[[seed]])
        loss = mean_losses(replace(model, trained=alone), own, 1, None)
        parts = torch.autograd.grad(loss.sum(), list(alone.values()))
        assert abs(loss - losses[replicate]).max() < 1e-12
        for together, part in zip(whole, parts, strict=True):
            assert (together[replicate] - part[0]).abs().max() < 1e-12


@pytest.mark.long("long trainings")
def test_a_head_learns_what_the_words_of_a_text_say(
    data: Stored, folder_of: Callable[[str], PlacedFolder], tmp_path: Path
):
    folder, watching = folder_of("bert-alone"), Remembering()
    spec = head_job(
        data,
        check_folder(folder.path).family,
        method="full_finetuning",
        budget={"trainable_parameters": None},
        training={"steps": 200, "batch_size": 16},
        tuning={"learning_rates": [0.01]},
    )
    run(spec, (), tmp_path, watching, "cpu", folder=folder, datasets=(data.path,))
    scores = [event.evaluation for event in watching.of(Evaluated)]
    attached = [score.correct / score.total for score in scores if score.attached]
    alone = {score.correct / score.total for score in scores if not score.attached}
    assert min(attached) > 0.85
    rule = data.task(HEAD_TASK).split_rule()
    labels = [record["label"] for record in reviews(160) if rule.split_of(record) == "test"]
    assert alone == {labels.count("neg") / len(labels)}, "an untrained head prefers the first class"


@pytest.mark.parametrize("family", [SMALL, GPT2(), Llama()], ids=["minigpt", "gpt2", "llama"])
def test_a_model_pretrained_here_classifies_bytes(family: Family, data: Stored, tmp_path: Path):
    first, watching = Remembering(), Remembering()
    pretrained = resolve(
        PretrainSpec.model_validate(
            {
                "name": "base",
                "task": CLASSIFICATION,
                "family": family.model_dump(exclude_defaults=True) | {"name": family.name},
                "training": {"steps": 2, "batch_size": 4},
                "seeds": 1,
            }
        ),
        None,
        data.datasets,
    )
    (tmp_path / "base").mkdir()
    run(pretrained, (), tmp_path / "base", first, "cpu", datasets=(data.path,))
    (base,) = first.of(CheckpointWritten)
    spec = head_job(data, pretrained.family, budget={"trainable_parameters": 1500})
    run(spec, (base.path,), tmp_path, watching, "cpu", datasets=(data.path,))
    scores = [event.evaluation for event in watching.of(Evaluated)]
    assert [(score.attached, score.total) for score in scores] == [
        (attached, spec.evaluation_samples) for attached in (True, True, False, False)
    ]
    for written in watching.of(CheckpointWritten):
        with safe_open(written.path, "pt") as file:
            head = file.get_tensor("unembed.weight")
        assert len(head) == 2
        assert head.abs().max() > 0, "it starts at zero and was trained"
