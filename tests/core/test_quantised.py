"""Four-bit base weights in specs: refusals, digests and counts."""

from collections.abc import Sequence

import pytest
from tests.making import a_pretrain_spec, an_adapt_spec, base_facts

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.families.llama import Llama
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.cost import work
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.quantised import base_bytes, exact_scalars, quantised_bytes
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt, spec_digest
from adaptlab.specs.spec import ModelFolder

LLAMA = Llama(
    layers=4, heads=8, width=512, head_size=64, hidden=2048, key_value_heads=8
).resolved(1000, 64)  # fmt: skip
PUBLISHED = BaseModelFacts(
    name="llama",
    digest="0" * 64,
    family=LLAMA,
    task=None,
    replicates=1,
    folder=ModelFolder(folder="models/llama", files=()),
)


def job(
    method: object,
    form: str = "nf4",
    base: BaseModelFacts = PUBLISHED,
    others: Sequence[BaseModelFacts] = (),
    **changes: object,
) -> ResolvedAdapt:
    training = {"steps": 1, "batch_size": 1, "validations": 0, "base_weights": form}
    given = {"budget": {}, "seeds": 1, "training": training, **changes}
    spec = an_adapt_spec(base_model=base.name, method=method, **given)
    return resolve(spec, base, others=others)


def refused(*args: object, **named: object) -> Problem:
    with pytest.raises(InvalidSpec) as refusal:
        job(*args, **named)  # pyright: ignore[reportArgumentType] - passed on
    (problem,) = refusal.value.problems
    return problem


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ({"name": "full_finetuning"}, "blocks.0.attn.k.weight and 27 more"),
        ({"name": "from_scratch"}, "blocks.0.attn.k.weight and 27 more"),
        ({"name": "lora", "rank": 1, "dora": True, "sites": ["blocks.0.attn.q"]}, "attn.q.weight"),
        (
            {
                "name": "combine",
                "parts": [{"name": "prefix_tuning", "length": 1}, {"name": "full_finetuning"}],
            },
            "blocks.0.attn.k.weight",
        ),
    ],
)
def test_a_method_that_trains_or_reads_four_bit_matrices_is_refused_by_name(
    method: object, name: str
) -> None:
    problem = refused(method)
    assert (problem.pointer, problem.code) == ("/training/base_weights", "trains_quantised")
    assert name in problem.detail


@pytest.mark.parametrize(
    "method",
    [
        {"name": "lora", "rank": 1},
        {"name": "prefix_tuning", "length": 1},
        {"name": "bitfit"},
        {"name": "layernorm_tuning"},
        {"name": "frozen"},
    ],
)
def test_methods_that_leave_the_matrices_frozen_are_not(method: dict[str, object]) -> None:
    published = LLAMA.model_copy(update={"attention_biases": "qkv"})
    base = PUBLISHED.model_copy(update={"family": published})
    assert job(method, base=base).quantises


def test_only_imported_base_models_are_held_in_four_bits() -> None:
    problem = refused("lora", base=base_facts(), budget={"trainable_parameters": 500})
    assert (problem.pointer, problem.code) == ("/training/base_weights", "not_quantised")
    spec = a_pretrain_spec(training={"base_weights": "nf4"})
    with pytest.raises(InvalidSpec, match="A pretraining has no frozen base model"):
        resolve(spec, None)


def test_the_digest_of_stored_weights_is_that_of_earlier_versions() -> None:
    """The expected one was computed by commit 7ed8d5e6, without the member."""
    stored = job({"name": "lora", "rank": 1}, "stored")
    assert spec_digest(stored) != spec_digest(job({"name": "lora", "rank": 1}))
    assert spec_digest(stored) == (
        "987a311e9e84bb47c0a27cdf9dfa25937fde5dc2bf7e6647c5c02268df15d939"
    )


def test_memory_has_the_matrices_of_blocks_in_four_bits() -> None:
    shape = family_shape(LLAMA)
    assert quantised_bytes(64 * 256 * 3) == 64 * 128 * 3 + 256 * 3 + 4 * 3 + 4
    kept = exact_scalars(shape)
    assert kept == 2 * 1000 * 512 + 9 * 512  # embedding, head and norms
    saved = 4 * shape.parameters - base_bytes(shape, 4, is_quantised=True)
    of_blocks = 4 * (4 * 512 * 512 + 3 * 512 * 2048)
    assert saved == pytest.approx(of_blocks * (4 - 0.5 - 1 / 64), rel=1e-3)
    lora = {"name": "lora", "rank": 1}
    less = work(job(lora, "stored")).memory_bytes - work(job(lora)).memory_bytes
    restored = 3 * 4 * 512 * 2048  # the largest matrix, read as floats
    assert less == saved - restored


def test_a_step_moves_more_to_read_four_bits() -> None:
    lora = {"name": "lora", "rank": 1}
    packed, stored = work(job(lora)).training, work(job(lora, "stored")).training
    assert packed.flops == stored.flops
    assert packed.traffic_bytes > stored.traffic_bytes
