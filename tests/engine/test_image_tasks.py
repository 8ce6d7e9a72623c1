"""Images as the items of a task, and the contract of methods on them."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.engine.image_models import a_tiny_vit
from tests.engine.making import Remembering, trainables
from tests.engine.running import run
from torch import Tensor
from transformers import ViTForImageClassification

from adaptlab.engine.items.images import images_of
from adaptlab.engine.items.task_items import make_items, scored_items
from adaptlab.engine.models.base_weights import BaseWeights
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.engine.tasks import digit_images
from adaptlab.engine.training.loss import mean_losses
from adaptlab.engine.training.train import Training
from adaptlab.errors import BadDataset, InvalidSpec
from adaptlab.families.llama import Llama
from adaptlab.plugins.family import Family
from adaptlab.plugins.images import shade
from adaptlab.plugins.splits import EVERY_SPLIT
from adaptlab.records import digits_table
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import (
    AnswersGiven,
    AttentionCaptured,
    Evaluated,
    ItemsShown,
)
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.budget import budget_vector
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab.specs.spec import AdaptSpec
from adaptlab.tasks.digit_images import DigitImages
from adaptlab.weights.model_folder import check_folder
from adaptlab.weights.placed_folder import PlacedFolder

METHODS: Mapping[str, dict[str, Any]] = {
    "lora": {"name": "lora", "rank": 1},
    "dora": {"name": "lora", "rank": 1, "dora": True},
    "rslora": {"name": "lora", "rank": 2, "scaling": "rank_stabilised"},
    "deep": {"name": "prefix_tuning", "length": 2},
    "keys-and-values": {"name": "prefix_tuning", "length": 2, "side": "key_value"},
    "shallow": {"name": "soft_prompt", "length": 3},
    "ia3": {"name": "ia3"},
    "adapter": {"name": "adapter", "bottleneck": 2},
    "bitfit": {"name": "bitfit"},
    "norms": {"name": "layernorm_tuning"},
    "head": {"name": "head_only"},
    "full": {"name": "full_finetuning"},
}
each_method = pytest.mark.parametrize("name", METHODS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> PlacedFolder:
    return a_tiny_vit(tmp_path_factory.mktemp("vit"), channels=1)


def job(family: Family, **changes: Any) -> ResolvedAdapt:
    facts = BaseModelFacts(name="base", digest="0" * 64, family=family, task=None, replicates=1)
    spec = {
        "base_model": "base",
        "task": {"name": "digit_images", "digits": [5, 6, 7, 8, 9]},
        "method": METHODS["lora"],
        "training": {"steps": 3, "batch_size": 6, "precision": "float64", "validations": 1},
        "tuning": {"learning_rates": [0.01, 0.03], "validation_samples": 4},
        "seeds": 2,
        "evaluation": {"samples": 40, "shown": 32},
        **changes,
    }
    return resolve(AdaptSpec.model_validate(spec), facts)


def planned(folder: PlacedFolder, name: str) -> tuple[Plan, dict[str, Tensor]]:
    plan = make_plan(job(check_folder(folder.path).family, method=METHODS[name]), "cpu")
    base = BaseWeights((), folder).read(plan, plan.spec.base_replicates, plan.dtype)
    return plan, dict(base)


@each_method
def test_what_is_declared_is_allocated_and_moved_and_the_base_is_not(
    name: str, folder: PlacedFolder, tmp_path: Path
):
    plan, base = planned(folder, name)
    allocated, untouched = trainables(plan, base), {n: t.clone() for n, t in base.items()}
    before = allocated.flat.clone()
    assert plan.method is not None
    vector = budget_vector(plan.method, plan.shape, None)
    assert {n: t[0].numel() for n, t in allocated.tensors.items()} == vector.tensors
    Training(plan, Model(plan, base, allocated.tensors), allocated, Remembering()).run(tmp_path)
    assert (allocated.flat != before).sum() == 4 * vector.trainable_parameters
    assert all(torch.equal(base[n], untouched[n]) for n in base)
    made = make_items(plan.task, "test", torch.tensor([0]), 0, 3)
    trained = Model(plan, base, allocated.tensors)
    plain = Model(plan, base, {})
    assert torch.equal(
        trained.answers(made, attached=False), plain.answers(made, attached=False)
    ), "detaching restores the base"
    assert not torch.equal(trained.answers(made)[0], plain.answers(made, attached=False)[0])


@each_method
def test_a_replicate_in_a_stack_is_the_replicate_alone(name: str, folder: PlacedFolder):
    plan, base = planned(folder, name)
    start = trainables(plan, base).tensors
    generator = torch.Generator().manual_seed(5)
    moved = {
        n: (t.detach() + 0.3 * torch.randn(t.shape, generator=generator, dtype=t.dtype))
        for n, t in start.items()
    }
    items = make_items(plan.task, "train", plan.seeds, 0, 3)
    trained = {n: t.clone().requires_grad_() for n, t in moved.items()}
    losses = mean_losses(Model(plan, base, trained), items, plan.replicates, None)
    whole = torch.autograd.grad(losses.sum(), list(trained.values()))
    for replicate in (1, 2):
        alone = {n: t[[replicate]].clone().requires_grad_() for n, t in moved.items()}
        own = items.each(lambda tensor, seed=replicate // 2: tensor[[seed]])
        loss = mean_losses(Model(plan, base, alone), own, 1, None)
        assert (loss - losses[replicate]).abs().max() < 1e-12
        parts = torch.autograd.grad(loss.sum(), list(alone.values()))
        for together, part in zip(whole, parts, strict=True):
            assert (together[replicate] - part[0]).abs().max() < 1e-11


@pytest.mark.parametrize("name", ["lora", "deep", "shallow", "full"])
def test_gradients_agree_with_finite_differences(name: str, folder: PlacedFolder):
    plan, base = planned(folder, name)
    start = trainables(plan, base).tensors
    generator = torch.Generator().manual_seed(9)
    names = list(start)
    tensors = tuple(
        (
            t[:1].detach() + 0.1 * torch.randn(t[:1].shape, generator=generator, dtype=t.dtype)
        ).requires_grad_()
        for t in start.values()
    )
    items = make_items(plan.task, "train", plan.seeds[:1], 0, 2)

    def loss(*values: Tensor) -> Tensor:
        return mean_losses(Model(plan, base, dict(zip(names, values, strict=True))), items, 1, None)

    assert torch.autograd.gradcheck(loss, tensors, fast_mode=True)


def test_a_job_scores_every_item_once_and_shows_its_image(folder: PlacedFolder, tmp_path: Path):
    spec, watching = job(check_folder(folder.path).family), Remembering()
    run(spec, (), tmp_path, watching, "cpu", folder=folder)
    assert Expected.of(spec).problems(watching.events) == ()
    (shown,) = watching.of(ItemsShown)
    expected = [item.expected.text for item in shown.items]
    assert set(expected) == set("56789")
    assert "█" in shown.items[0].prompt.text
    scores = [event.evaluation for event in watching.of(Evaluated)]
    for score in scores:
        assert score.confusion is not None
        assert score.confusion.labels == tuple("56789")
        counts = np.array(score.confusion.counts)
        assert (counts.sum(), counts.trace()) == (score.total, score.correct)
    outcomes = {(one.replicate, one.attached): one.outcomes for one in scores}
    for given in watching.of(AnswersGiven):
        right = [a.text == e for a, e in zip(given.answers, expected, strict=True)]
        packed = np.packbits(right).tobytes().hex()
        assert outcomes[given.replicate, given.attached].startswith(packed)


HALF = 1e-3  # half a unit of a float16 below 1, and a little


@pytest.mark.parametrize("name", ["lora", "deep", "shallow"])
def test_attention_over_patches_is_that_of_the_library(
    name: str, folder: PlacedFolder, tmp_path: Path
):
    family = check_folder(folder.path).family
    capture = {"attention": {"samples": 3}}
    spec, told = job(family, method=METHODS[name], capture=capture), Remembering()
    run(spec, (), tmp_path, told, "cpu", folder=folder)
    assert Expected.of(spec).problems(told.events) == ()
    base, *_ = told.of(AttentionCaptured)
    found = np.load(base.path)
    theirs = ViTForImageClassification.from_pretrained(
        folder.path, attn_implementation="eager", num_labels=2
    )
    levels = make_items(spec.task, "test", torch.tensor([0]), 0, 3).tokens[0]
    pixels = levels.view(3, 1, 8, 8).float() / 127.5 - 1
    with torch.no_grad():
        patterns = theirs(pixels, output_attentions=True).attentions
    expected = torch.stack(patterns, 1).numpy()  # B,L,H,T,T
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.astype("float32"), expected, rtol=0, atol=HALF)
    adapted = [event for event in told.of(AttentionCaptured) if event.attention.source != "base"]
    count = METHODS[name].get("length", 0)
    assert {event.attention.learned_positions for event in adapted} == {count}
    assert {event.attention.shape[-1] for event in adapted} == {5 + count}


def test_a_recorded_image_is_told_by_its_patches(folder: PlacedFolder, tmp_path: Path):
    capture = {"attention": {"samples": 2}}
    spec, told = job(check_folder(folder.path).family, capture=capture), Remembering()
    run(spec, (), tmp_path, told, "cpu", folder=folder)
    shown = told.of(AttentionCaptured)[0].attention
    levels = make_items(spec.task, "test", torch.tensor([0]), 0, 2).tokens[0].view(2, 8, 8)
    for sample, text in enumerate(shown.texts):
        assert [word.split()[-1] for word in text.words] == ["class", "1,1", "1,2", "2,1", "2,2"]
        assert (text.target_start, len(text.expected), len(text.predicted)) == (0, 1, 1)
        lower_left = round(float(levels[sample, 4:, :4].float().mean()))
        assert shown.tokens[sample][3] == lower_left
        assert text.words[3].startswith(shade(lower_left))


@pytest.mark.parametrize("digits", [(0, 1, 2, 3, 4), (9, 3)], ids=str)
def test_splits_share_no_image_and_are_as_large_as_declared(digits: tuple[int, ...]):
    task = DigitImages(digits=digits)
    images: list[set[tuple[int, ...]]] = []
    for split in EVERY_SPLIT:
        count = task.available(split)
        device = torch.device("cpu")
        if split == "train":
            drawn = make_items(task, split, torch.tensor([0]), 0, 20 * count)
            found = {tuple(row) for row in drawn.tokens[0].tolist()}
        else:
            ((_, items),) = scored_items(task, split, count, count, device)
            found = {tuple(row) for row in items.tokens[0].tolist()}
            assert set(items.targets.flatten().tolist()) == set(range(len(digits)))
        assert len(found) == count
        images.append(found)
    assert len(set.union(*images)) == sum(map(len, images))


def test_classes_follow_the_order_of_the_digits():
    tasks = (DigitImages(digits=digits) for digits in ((3, 7), (7, 3)))
    one, other = (digit_images.images(task, "test") for task in tasks)
    assert torch.equal(one.levels, other.levels)
    assert torch.equal(one.classes, 1 - other.classes)
    assert (int(one.levels.min()), int(one.levels.max())) == (0, 255)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"task": {"name": "digit_images", "digits": [1, 1]}}, "class_twice"),
        ({"task": "copy"}, "other_items"),
        ({"capture": {"attention": {"inputs": [[0] * 64]}}}, "inputs_of_images"),
        ({"capture": {"attention": {"samples": 0}}}, "no_such_items"),
        ({"method": {"name": "soft_prompt", "length": 2, "initialisation": "vocabulary"}},
         "no_vocabulary"),
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_fit_is_refused(changes: dict[str, Any], code: str, folder: PlacedFolder):
    with pytest.raises(InvalidSpec) as refused:
        job(check_folder(folder.path).family, **changes)
    assert [problem.code for problem in refused.value.problems] == [code]


def test_a_model_of_tokens_reads_no_images():
    with pytest.raises(InvalidSpec, match="images of 1 × 8 × 8 levels"):
        job(Llama(layers=1, heads=2, key_value_heads=1, width=8).resolved(256, 64))


def test_images_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch):
    absent: Callable[[str], None] = lambda _: None  # noqa: E731
    monkeypatch.setattr(digits_table, "find_spec", absent)
    digits_table.digit_rows.cache_clear()
    digit_images._every.cache_clear()
    with pytest.raises(BadDataset, match=r"adaptlab\[images\]"):
        digit_images.images(DigitImages(), "test")
    digits_table.digit_rows.cache_clear()


def test_pictures_are_the_test_items_in_their_order():
    task = DigitImages(digits=(9, 0, 3, 5))
    listed = images_of(task, "test", torch.device("cpu"))
    assert len(listed.levels) == task.available("test")
    for item, levels in enumerate(listed.levels):
        with Image.open(io.BytesIO(task.picture(item, dict))) as image:
            assert image.tobytes() == bytes((255 - levels).tolist())
