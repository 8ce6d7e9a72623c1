"""The theory's transformer against plain formulas.

A construction of the paper is built in it.
"""

import itertools
import math

import pytest
import torch
from tests.engine.making import (
    SMALL_OF_EACH,
    adaptation,
    base_tensors,
    items,
    perturbed,
    trainables,
)
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from adaptlab.engine.items.digits import target_rows
from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.models.model import Model
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.errors import InvalidSpec
from adaptlab.families.formal import AttentionLayer, Formal, Head, ReluLayer
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import PretrainSpec

_SMALL = SMALL_OF_EACH["formal"]
assert isinstance(_SMALL, Formal)
SMALL: Formal = _SMALL
SHARP = SMALL.model_copy(
    update={"inverse_temperature": 2.5, "reserved_positions": 2, "attention": "bidirectional"}
)

LATE = {"name": "suffix_tuning", "length": 3, "scope": "input_only"}


def plain_logits(
    family: Formal,
    w: dict[str, Tensor],
    tokens: list[int],
    codes: int,
    *,
    prompt: Tensor | None = None,
    prefixes: dict[int, Tensor] | None = None,
    late: Tensor | None = None,
    first: int = 0,
) -> Tensor:
    """Return logits [T, V] by the formulas of the paper.

    They are computed one position, head and sum at a time.

    The virtual tokens `late` stand behind the content; they see it up to place `first`, or all of
    it in the bidirectional model, and are seen from there on.
    """
    x = [
        torch.cat([w["embed.weight"][token], torch.eye(codes).double()[place]])
        for place, token in enumerate(tokens, family.reserved_positions)
    ]
    x = ([] if prompt is None else list(prompt)) + x
    first, before = first + len(x) - len(tokens), len(x)
    x = x + ([] if late is None else list(late))
    seen = [who_sees(family, i, first, before, len(x)) for i in range(len(x))]
    for index, layer in enumerate(family.stack):
        name = f"blocks.{index}"
        if isinstance(layer, AttentionLayer):
            rows = [] if prefixes is None else list(prefixes[index])
            own = {k: w[f"{name}.attn.{k}.weight"] for k in "qkv"}
            x = attended(family, layer, own, rows, x, seen)
            continue
        x = [w[f"{name}.{layer.kind}.weight"] @ v + w[f"{name}.{layer.kind}.bias"] for v in x]
        x = [v.clamp(min=0) for v in x] if isinstance(layer, ReluLayer) else x
    content = x[before - len(tokens) : before]
    return torch.stack([w["unembed.weight"] @ v + w["unembed.bias"] for v in content])


def who_sees(family: Formal, place: int, first: int, late: int, stop: int) -> set[int]:
    """Return the places that one of the places below `stop` sees.

    Late places begin with `late`.
    """
    causal, virtual = family.attention == "causal", set(range(late, stop))
    if place in virtual:
        return set(range(first + 1 if causal else late)) | {
            other for other in virtual if other <= place or not causal
        }
    return set(range(place + 1 if causal else late)) | (virtual if place >= first else set())


def attended(
    family: Formal,
    layer: AttentionLayer,
    w: dict[str, Tensor],
    rows: list[Tensor],
    x: list[Tensor],
    visible: list[set[int]],
) -> list[Tensor]:
    found: list[Tensor] = []
    for i, query in enumerate(x):
        seen = rows + [x[j] for j in sorted(visible[i])]
        total, key, value = torch.zeros(layer.heads[0].value_size).double(), 0, 0
        for head in layer.heads:
            q = w["q"][key : key + head.key_size] @ query
            k = [w["k"][key : key + head.key_size] @ v for v in seen]
            weights = [
                math.exp(family.inverse_temperature / math.sqrt(head.key_size) * float(q @ each))
                for each in k
            ]
            for weight, v in zip(weights, seen, strict=True):
                t = w["v"][value : value + head.value_size] @ v
                total = total + weight / sum(weights) * t
            key, value = key + head.key_size, value + head.value_size
        found.append(total)
    return found


def one(tensors: dict[str, Tensor], index: int) -> dict[str, Tensor]:
    return {name: t[index if t.shape[0] > 1 else 0] for name, t in tensors.items()}


@pytest.mark.parametrize("family", [SMALL, SHARP], ids=["causal", "sharp-bidirectional"])
@pytest.mark.parametrize(
    "method",
    [
        {"name": "full_finetuning"},
        {"name": "lora", "rank": 2, "alpha": 3.0, "sites": ["attn", "relu", "linear", "unembed"]},
        {"name": "prefix_tuning", "length": 2},
        {"name": "soft_prompt", "length": 2},
        {"name": "suffix_tuning", "length": 2, "scope": "input_only"},
        {"name": "combine", "parts": [LATE, {"name": "soft_prompt", "length": 2}]},
    ],
    ids=lambda m: m["name"],
)
@pytest.mark.parametrize("groups", [1, 2])
def test_adapted_logits_are_those_of_the_formulas(family: Formal, method: dict, groups: int):
    plan = adaptation(method, family=family, base_replicates=2)
    base = base_tensors(plan, groups)
    trained = perturbed(plan, trainables(plan, base).tensors)
    made, codes = items(plan), 9 + family.reserved_positions
    found = Model(plan, base, trained).logits(made.tokens, target_rows(plan.task))
    for replicate in range(2):
        w, t = one(base, replicate), one(trained, replicate)
        prompt, prefixes = t.get("embed.prompt"), None
        if method["name"] == "full_finetuning":
            w = t
        elif method["name"] == "lora":
            for name in {n.rsplit(".", 1)[0] for n in t}:
                w[f"{name}.weight"] = w[f"{name}.weight"] + 1.5 * t[f"{name}.b"] @ t[f"{name}.a"]
        elif method["name"] == "combine":
            prompt = t["soft_prompt.embed.prompt"]
        elif method["name"] == "prefix_tuning":
            prefixes = {i: t[f"blocks.{i}.attn.input"] for i, _ in family.attention_layers()}
        tokens = made.tokens[replicate, 0].tolist()
        if family.attention == "bidirectional":
            tokens[5:] = [8] * 4  # the answer is masked
        late = t.get("embed.suffix", t.get("suffix_tuning.embed.suffix"))
        expected = plain_logits(
            family, w, tokens, codes, prompt=prompt, prefixes=prefixes, late=late, first=4
        )
        rows = expected[target_rows(plan.task)]
        assert torch.allclose(found[replicate, 0], rows, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "method",
    ["attention_bias", "full_finetuning", LATE, {"name": "suffix_tuning", "length": 2}],
    ids=str,
)
def test_positions_that_are_not_asked_for_are_not_computed_and_change_nothing(method: object):
    plan = adaptation(method, family=SMALL)  # type: ignore[arg-type]
    base, made, rows = base_tensors(plan), items(plan), target_rows(plan.task)
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    with FlopCounterMode(display=False) as all_of_them:
        every = model.logits(made.tokens, slice(None))
    with FlopCounterMode(display=False) as some:
        answers = model.logits(made.tokens, rows)
    assert torch.allclose(every[:, :, rows], answers, rtol=0, atol=1e-12)
    assert some.get_total_flops() < all_of_them.get_total_flops()
    recorded = model.logits(made.tokens, rows, recorder := LayerRecorder())
    assert torch.allclose(recorded, answers, rtol=0, atol=1e-12)
    assert [pattern.shape[3] for pattern in recorder.patterns] == [9, 9]


def test_equation_seven_holds_for_every_head_of_the_first_attention():
    plan = adaptation({"name": "prefix_tuning", "length": 1}, family=SMALL)
    base, made = base_tensors(plan), items(plan)
    model, before, after = (
        Model(plan, base, perturbed(plan, trainables(plan, base).tensors)),
        LayerRecorder(),
        LayerRecorder(),
    )
    model.base_logits(made.tokens, slice(None), before)
    model.logits(made.tokens, slice(None), after)
    strength = after.patterns[0][..., :1]
    assert strength.min() > 0
    kept = before.patterns[0] * (1 - strength)
    assert torch.allclose(after.patterns[0][..., 1:], kept, rtol=0, atol=1e-12)
    assert [p.shape[2] for p in after.patterns] == [2, 2]


def theorem_one(vocabulary: int, length: int) -> tuple[Formal, dict[str, Tensor]]:
    """Return the model of theorem 1, with its weights.

    One virtual token decides all of a sequence, whatever the content.

    With N + 1 positions: the engine reads answers at content positions, so that content begins
    with a token that says nothing, and what position 1, the virtual token's, answers goes unread.
    """
    places = length + 1
    none, eye = torch.zeros(places, places), torch.eye(places)
    family = Formal(
        width=places,
        stack=(
            AttentionLayer(
                heads=(
                    Head(key_size=places, value_size=places),  # where am I
                    Head(key_size=1, value_size=places),  # what does the first position hold
                )
            ),
            ReluLayer(width=places),
            ReluLayer(width=1),
        ),
        inverse_temperature=50.0,
        reserved_positions=1,
        vocabulary=vocabulary,
        context=length,
    )
    every, first = torch.ones(1, places), eye[:1]
    grid = torch.arange(vocabulary) / vocabulary
    here = torch.cat([none, eye], 1)
    weights = {
        "embed.weight": torch.zeros(vocabulary, places),
        "blocks.0.attn.q.weight": torch.cat([here, torch.cat([0 * every, every], 1)]),
        "blocks.0.attn.k.weight": torch.cat([here, torch.cat([0 * every, first], 1)]),
        "blocks.0.attn.v.weight": torch.cat([here, torch.cat([eye, none], 1)]),
        "blocks.1.relu.weight": eye,
        "blocks.1.relu.bias": -torch.ones(places),
        "blocks.2.relu.weight": every,
        "blocks.2.relu.bias": torch.zeros(1),
        "unembed.weight": (2 * grid - 1).unsqueeze(1),
        "unembed.bias": 0.25 - grid**2,
    }
    shapes = {name: tensor.shape for name, tensor in family.shape().tensors.items()}
    assert {name: tuple(tensor.shape) for name, tensor in weights.items()} == shapes
    return family, {name: tensor.double().unsqueeze(0) for name, tensor in weights.items()}


@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_theorem_one_gives_every_sequence_from_one_virtual_token(attention: str):
    vocabulary, length = 3, 4
    family, weights = theorem_one(vocabulary, length)
    wanted = torch.tensor(list(itertools.product(range(vocabulary), repeat=length)))
    if attention == "bidirectional":
        family = family.model_copy(update={"attention": attention})
    virtual = torch.zeros(len(wanted), 1, 2 * (length + 1)).double()
    virtual[:, 0, 1 : length + 1] = wanted / vocabulary
    virtual[:, 0, length + 1] = 1  # the code of position 1
    forward = ENGINE_FAMILIES.get("formal")
    told = torch.zeros(len(wanted), 1, 1, dtype=torch.int64)
    for _ in range(length):
        attached = Attachments(prompt=virtual)
        logits = forward(family, weights, told, attached, slice(-1, None))
        told = torch.cat([told, logits.argmax(-1)], -1)
    assert torch.equal(told[:, 0, 1:], wanted)
    assert len(wanted) == vocabulary**length


def test_theorem_one_fails_when_attention_is_not_sharp():
    """Without sharp attention, no place is singled out.

    The bound on T is what makes the theorem work: at T = 0 heads average.
    """
    family, weights = theorem_one(3, 4)
    blunt = family.model_copy(update={"inverse_temperature": 0.0})
    virtual = torch.zeros(1, 1, 10).double()
    virtual[0, 0, 1:5] = torch.tensor([2, 1, 2, 0]) / 3
    tokens = torch.zeros(1, 1, 4, dtype=torch.int64)
    logits = ENGINE_FAMILIES.get("formal")(
        blunt, weights, tokens, Attachments(prompt=virtual), slice(None)
    )
    assert logits.argmax(-1).tolist() != [[[2, 1, 2, 0]]]


def pretraining(**family: object) -> PretrainSpec:
    return PretrainSpec.model_validate(
        {
            "name": "tiny",
            "family": {"name": "formal", **family},
            "task": {"name": "sort_ascending", "length": 4},
            "capture": {"attention": {"samples": 1}},
        }
    )


def heads(*sizes: tuple[int, int]) -> dict[str, object]:
    return {"kind": "attention", "heads": [{"key_size": k, "value_size": v} for k, v in sizes]}


def test_values_of_two_sizes_cannot_be_added():
    with pytest.raises(InvalidSpec) as refused:
        resolve(pretraining(stack=[heads((2, 3), (4, 5))]), None)
    (problem,) = refused.value.problems
    assert problem.pointer == "/family/stack/0/heads/1/value_size"
    assert problem.nearest == (3,)


@pytest.mark.parametrize(
    "layer", [{"kind": "sigmoid", "width": 3}, {"kind": "relu"}, {"kind": "attention", "heads": []}]
)
def test_a_layer_that_does_not_exist_or_is_incomplete_is_refused(layer: dict[str, object]):
    with pytest.raises(InvalidSpec) as refused:
        resolve(pretraining(stack=[layer]), None)
    assert refused.value.problems[0].pointer.startswith("/family/stack/0")


def test_maps_need_as_many_heads_in_every_layer():
    resolve(pretraining(stack=[heads((2, 3)), heads((4, 5))]), None)
    with pytest.raises(InvalidSpec) as refused:
        resolve(pretraining(stack=[heads((2, 3)), heads((2, 3), (2, 3))]), None)
    assert refused.value.problems[0].pointer == "/capture/attention"


@pytest.mark.parametrize(
    "method", [{"name": "prefix_tuning", "side": "key_value", "length": 1}, "attention_bias"]
)
def test_methods_that_need_more_of_heads_are_refused_by_name(method: object):
    stack = (
        AttentionLayer(heads=(Head(key_size=2, value_size=3),)),
        AttentionLayer(heads=(Head(key_size=1, value_size=3), Head(key_size=2, value_size=3))),
    )
    with pytest.raises(InvalidSpec) as refused:
        adaptation(method, family=Formal(width=4, stack=stack))  # type: ignore[arg-type]
    assert refused.value.problems[0].code == "no_sites"


def test_a_suffix_is_a_prefix_that_the_question_does_not_see():
    single = SMALL.model_copy(update={"stack": SMALL.stack[1:2]})
    suffix = adaptation({"name": "suffix_tuning", "length": 2}, family=single)
    prefix = adaptation({"name": "prefix_tuning", "length": 2}, family=single)
    base, made = base_tensors(suffix), items(suffix)
    rows = perturbed(suffix, trainables(suffix, base).tensors)
    found = Model(suffix, base, rows).logits(made.tokens, slice(None))
    start = target_rows(suffix.task).start
    plain = Model(suffix, base, {}).base_logits(made.tokens, slice(None))
    seen = Model(prefix, base, rows).logits(made.tokens, slice(None))
    assert torch.allclose(found[:, :, :start], plain[:, :, :start], rtol=0, atol=1e-12)
    assert torch.allclose(found[:, :, start:], seen[:, :, start:], rtol=0, atol=1e-12)
    assert not torch.allclose(seen[:, :, :start], plain[:, :, :start])
