"""All identities of one base together, as a job would ask for them."""

from dataclasses import replace

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

from adaptlab.engine.models.model import Model
from adaptlab.families.formal import AttentionLayer, Formal, Head
from adaptlab.methods.lora import Lora
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.theory.identities import TrainedPrefixes, identities
from adaptlab.theory.observation import exact, random_attachments, random_base

TOKENS = torch.randint(0, 8, (1, 12, 9), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("family", ["minigpt", "gpt2", "llama", "formal"])
def test_all_hold_on_every_family(family: str):
    report = identities(random_base(SMALL_OF_EACH[family].resolved(8, 9), seed=1), TOKENS)
    assert report.failed == ()
    names = [check.name for check in report.checks]
    assert len(set(names)) == len(names)
    for part in ("equation-6.deeper-layers.random-3", "added-part-spans.random-1",
                 "second-layer-four-terms", "rotation.best-shift"):  # fmt: skip
        assert part in names


def test_trained_prefixes_are_looked_at_too():
    base = random_base(SMALL_OF_EACH["minigpt"].resolved(8, 9), seed=1)
    several = [random_attachments(base, PrefixTuning(length=4), seed, 2.0) for seed in (1, 2)]
    trained = TrainedPrefixes(several, torch.arange(12) % 2, position=4)
    names = {check.name for check in identities(base, TOKENS, trained=trained).checks}
    assert {
        "equation-7.deeper-layers.trained-1",
        "attention-over-prefix.trained-0",
        "clusters.before",
        "clusters.after",
    } <= names


def test_what_is_no_prefix_is_found_out():
    base = random_base(SMALL_OF_EACH["gpt2"].resolved(8, 9), seed=1)
    queries = random_attachments(base, Lora(rank=1, sites=("attn.q",)), seed=1)
    prefix = random_attachments(base, PrefixTuning(length=1), seed=1)
    both = replace(prefix, outputs=queries.outputs)
    trained = TrainedPrefixes([both], torch.arange(12) % 2, position=4)
    failed = {check.name for check in identities(base, TOKENS, trained=trained).failed}
    assert "equation-6.first-layer.trained-0" in failed
    assert not any(name.endswith(("random-1", "random-3")) for name in failed)


def test_a_base_with_two_layers_in_a_row_is_its_own_example():
    layer = AttentionLayer(heads=(Head(key_size=3, value_size=4),))
    base = random_base(Formal(width=4, stack=(layer, layer)).resolved(8, 9), 1, spread=0.7)
    found = [
        next(c for c in identities(each, TOKENS).checks if c.name == "second-layer-four-terms")
        for each in (base, random_base(SMALL_OF_EACH["minigpt"].resolved(8, 9), seed=1))
    ]
    assert found[0].verdict == found[1].verdict == "holds"
    assert found[0].details != found[1].details


def test_a_model_of_a_job_is_checked_in_float64():
    plan = adaptation({"name": "prefix_tuning", "length": 2}, seeds=2)
    base = base_tensors(plan)
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    single = replace(
        model,
        base={name: tensor.float() for name, tensor in model.base.items()},
        trained={name: tensor.float() for name, tensor in model.trained.items()},
    )
    frozen, prefix = exact(single)
    assert {tensor.dtype for tensor in frozen.weights.values()} == {torch.float64}
    assert {rows.dtype for rows in prefix.attention_inputs.values()} == {torch.float64}
    trained = TrainedPrefixes([prefix], torch.zeros(3), position=4)
    tokens = items(plan).tokens[:1]
    assert identities(frozen, tokens, trained=trained).failed == ()
