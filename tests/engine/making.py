"""Small models in float64, and an observer that remembers."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch
from tests.engine.running import run

from adaptlab.engine.items.items import Items
from adaptlab.engine.items.task_items import make_items
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.engine.observer import Command
from adaptlab.engine.training.allocate import Trainables
from adaptlab.engine.training.initial_tensors import initial_trainables, with_companions
from adaptlab.families.formal import AttentionLayer, Formal, Head, LinearLayer, ReluLayer
from adaptlab.families.gpt2 import GPT2
from adaptlab.families.llama import Llama
from adaptlab.families.minigpt import MiniGPT
from adaptlab.families.transformers import Transformers
from adaptlab.methods.combine import Combine
from adaptlab.plugins.family import Family
from adaptlab.plugins.method import METHODS, Method
from adaptlab.plugins.registry import by_name
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.task import TASKS, DigitTask
from adaptlab.runs.events import CheckpointWritten, Event, TrainingSaved
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import spec_digest
from adaptlab.specs.spec import AdaptSpec, PretrainSpec

E = TypeVar("E")

SMALL = MiniGPT(layers=2, heads=2, width=12)
DIGIT_TASKS = tuple(name for name in TASKS.names() if issubclass(TASKS.get(name), DigitTask))

ANYWHERE = tuple(name for name in METHODS.names() if not METHODS.get(name).moves_content)
"""The methods that can adapt to any task; for those with demonstrations see test_in_context."""


def formal(width: int, size: int, hidden: int) -> Formal:
    """Return a model of two attention layers after a linear one.

    The attention layers have unlike heads. At the sizes below every ReLU fires for some item; one
    that never did would learn nothing.
    """
    heads = (Head(key_size=size - 1, value_size=size), Head(key_size=size + 1, value_size=size))
    return Formal(
        width=width,
        stack=(
            LinearLayer(width=width + 5),
            AttentionLayer(heads=heads),
            ReluLayer(width=hidden),
            LinearLayer(width=width + 2),
            AttentionLayer(heads=heads),
            LinearLayer(width=width),
        ),
    )


def qwen3(width: int, head_size: int, hidden: int, *, tied: bool = False) -> Transformers:
    """Return a published model of two layers.

    It has one head of keys for two of queries.
    """
    queries, block = 2 * head_size, "model.layers.*"
    stored = {
        "model.embed_tokens.weight": (8, width),
        f"{block}.input_layernorm.weight": (width,),
        f"{block}.self_attn.q_proj.weight": (queries, width),
        f"{block}.self_attn.q_proj.bias": (queries,),
        f"{block}.self_attn.k_proj.weight": (head_size, width),
        f"{block}.self_attn.k_proj.bias": (head_size,),
        f"{block}.self_attn.v_proj.weight": (head_size, width),
        f"{block}.self_attn.v_proj.bias": (head_size,),
        f"{block}.self_attn.o_proj.weight": (width, queries),
        f"{block}.self_attn.o_proj.bias": (width,),
        f"{block}.self_attn.q_norm.weight": (head_size,),
        f"{block}.self_attn.k_norm.weight": (head_size,),
        f"{block}.post_attention_layernorm.weight": (width,),
        f"{block}.mlp.gate_proj.weight": (hidden, width),
        f"{block}.mlp.up_proj.weight": (hidden, width),
        f"{block}.mlp.down_proj.weight": (width, hidden),
        "model.norm.weight": (width,),
    }
    return Transformers(
        architecture="Qwen3ForCausalLM",
        config={
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": head_size,
            "hidden_size": width,
            "intermediate_size": hidden,
            "max_position_embeddings": 9,
            "vocab_size": 8,
            "attention_bias": True,
            "tie_word_embeddings": tied,
        },
        stored=stored if tied else {**stored, "lm_head.weight": (8, width)},
    )


def mixtral(width: int, head_size: int, hidden: int) -> Transformers:
    """Return a published model of two layers with experts.

    Each token has two of three experts.
    """
    plain = qwen3(width, head_size, hidden)
    block = "model.layers.*"
    left_out = (".bias", "q_norm.weight", "k_norm.weight")
    stored = {
        name: shape
        for name, shape in plain.stored.items()
        if ".mlp." not in name and not name.endswith(left_out)
    }
    stored[f"{block}.block_sparse_moe.gate.weight"] = (3, width)
    for expert in (f"{block}.block_sparse_moe.experts.{number}" for number in range(3)):
        stored |= {f"{expert}.{part}.weight": (hidden, width) for part in ("w1", "w3")}
        stored[f"{expert}.w2.weight"] = (width, hidden)
    return Transformers(
        architecture="MixtralForCausalLM",
        config={**plain.config, "num_local_experts": 3, "num_experts_per_tok": 2},
        stored=stored,
    )


def bert(width: int, heads: int, hidden: int) -> Transformers:
    """Return a published encoder of two layers."""
    block, head = "bert.encoder.layer.*", "cls.predictions"
    linear = {
        f"{block}.attention.self.query": (width, width),
        f"{block}.attention.self.key": (width, width),
        f"{block}.attention.self.value": (width, width),
        f"{block}.attention.output.dense": (width, width),
        f"{block}.intermediate.dense": (hidden, width),
        f"{block}.output.dense": (width, hidden),
        f"{head}.transform.dense": (width, width),
    }
    norms = (
        "bert.embeddings.LayerNorm",
        f"{block}.attention.output.LayerNorm",
        f"{block}.output.LayerNorm",
        f"{head}.transform.LayerNorm",
    )
    embeddings = {"word": 9, "position": 10, "token_type": 1}
    return Transformers(
        architecture="BertForMaskedLM",
        config={
            "num_hidden_layers": 2,
            "num_attention_heads": heads,
            "hidden_size": width,
            "intermediate_size": hidden,
            "max_position_embeddings": 10,
            "type_vocab_size": 1,
            "vocab_size": 9,
            "mask_token_id": 8,
        },
        stored={
            **{f"bert.embeddings.{n}_embeddings.weight": (r, width) for n, r in embeddings.items()},
            **{f"{name}.weight": shape for name, shape in linear.items()},
            **{f"{name}.bias": shape[:1] for name, shape in linear.items()},
            **{f"{name}.{kind}": (width,) for name in norms for kind in ("weight", "bias")},
            f"{head}.bias": (9,),
        },
    )


SMALL_OF_EACH: dict[str, Family] = {
    "minigpt": SMALL,
    "formal": formal(7, 6, 6),
    "gpt2": GPT2(layers=2, heads=2, width=12, hidden=20),
    "llama": Llama(
        layers=2,
        heads=2,
        key_value_heads=1,
        width=12,
        head_size=8,
        hidden=16,
        attention_biases="qkv",
    ),
    "transformers": qwen3(12, 8, 16),
}
TINY_OF_EACH: dict[str, Family] = {
    "formal": formal(2, 3, 4),
    "minigpt": MiniGPT(layers=2, heads=2, width=4),
    "gpt2": GPT2(layers=2, heads=2, width=4, hidden=6),
    "llama": Llama(
        layers=2,
        heads=2,
        key_value_heads=1,
        width=4,
        head_size=4,
        hidden=6,
        attention_biases="qkv",
        tied_head=True,
    ),
    "transformers": qwen3(4, 4, 6, tied=True),
}
OTHER_SMALL: dict[str, Family] = {"mixtral": mixtral(12, 8, 10), "bert": bert(12, 2, 16)}
OTHER_TINY: dict[str, Family] = {"mixtral": mixtral(4, 4, 5), "bert": bert(4, 2, 6)}
"""Further models of the family `transformers`, for the contract of every method alone."""


def one_layer(family: Family) -> Family:
    """Return the family with a single layer, which has attention."""
    if isinstance(family, Formal):
        attention = (family.stack[place] for place, _ in family.attention_layers())
        return family.model_copy(update={"stack": (next(attention),)})
    if isinstance(family, Transformers):
        config = {**family.config, "num_hidden_layers": 1}
        return family.model_copy(update={"config": config})
    return family.model_copy(update={"layers": 1})


ROUNDINGS = 250
"""More than follow one another on the way to any logit of the models above.

Per layer: the longest softmax (12 columns), the weighted sum over as many values, sums over width
or hidden size for queries, keys, values, output and MLP (20 terms each at most), two norms.
"""


def rounding(values: torch.Tensor, roundings: int = ROUNDINGS) -> float:
    """Return a bound on the difference between two orders of the sums.

    Each of n roundings in a row errs by at most u = eps/2 of the largest value, in either order:
    2·n·u·max|values| (Higham 2002, section 3.1). Which order is taken depends on the processor,
    on shapes and on alignment, so bitwise equality is expected only if all are the same.
    """
    return roundings * torch.finfo(values.dtype).eps * float(values.abs().max())


LACKING = {
    (name, "formal")
    for name in (
        "adapter",
        "layernorm_tuning",
        "llama_adapter",
        "ntk_attention",
        "prefix_tuning_plus",
    )
}
"""Methods and variants that name sites which the family does not have, and so are refused."""
WITHOUT_BIASES = {("bitfit", "mixtral")}
SEARCHED = ("minigpt", "transformers")
"""Families for the contract of searches, which attach the rows of a soft prompt everywhere."""


def method_pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """Every small family with each of the methods that it has sites for."""
    crossed = [(name, family) for family in SMALL_OF_EACH | OTHER_SMALL for name in names]
    return [
        (name, family)
        for name, family in crossed
        if (name, family) not in LACKING | WITHOUT_BIASES
        and (family in SEARCHED or not unsized(name).is_search)
    ]


class Remembering:
    """An observer that keeps all events, and can command a save or a stop."""

    def __init__(self, stop_after: int | None = None, save_after: int | None = None) -> None:
        self.save_after = save_after
        self.events: list[Event] = []
        self.stop_after = stop_after

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def command(self) -> Command:
        steps = sum(event.event == "progress" for event in self.events)
        if self.save_after == steps and not self.of(TrainingSaved):
            return "save"
        return "stop" if self.stop_after is not None and steps >= self.stop_after else "continue"

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


def episodes_base(folder: Path, layers: int = 1) -> tuple[BaseModelFacts, tuple[Path, ...]]:
    """Pretrain two replicates of a tiny model on episodes; return its files."""
    document = {
        "name": "base",
        "family": {"name": "minigpt", "layers": layers, "heads": 2, "width": 16},
        "task": {"name": "episodes"},
        "training": {"steps": 3, "batch_size": 4},
        "evaluation": {"samples": 10},
        "seeds": 2,
    }
    return made_base(PretrainSpec.model_validate(document), folder)


def made_base(
    spec: PretrainSpec, folder: Path, observer: Remembering | None = None
) -> tuple[BaseModelFacts, tuple[Path, ...]]:
    """Pretrain a base model into a folder; return its facts and files."""
    observer = observer or Remembering()
    resolved = resolve(spec, None)
    run(resolved, (), folder, observer, "cpu")
    facts = BaseModelFacts(
        name=spec.name,
        digest=spec_digest(resolved),
        family=resolved.family,
        task=resolved.task,
        replicates=len(resolved.seeds),
    )
    return facts, tuple(written.path for written in observer.of(CheckpointWritten))


def adaptation(
    method: str | dict[str, object],
    budget: int | None = None,
    *,
    family: Family = SMALL,
    base_replicates: int = 1,
    **changes: object,
) -> Plan:
    """Return the plan of an adaptation to `sort_descending` of five digits."""
    task = {"name": "sort_descending", "length": 5, "alphabet": 6}
    spec = AdaptSpec.model_validate(
        {
            "base_model": "base",
            "task": task,
            "method": method,
            "budget": {"trainable_parameters": budget},
            "training": {"precision": "float64", "steps": 4, "batch_size": 3},
            **changes,
        }
    )
    facts = BaseModelFacts(
        name="base",
        digest="0" * 64,
        family=family.resolved(8, 9),
        task=by_name(TASKS, task),
        replicates=base_replicates,
    )
    return make_plan(resolve(spec, facts), "cpu")


VARIANTS: dict[str, dict[str, object]] = {
    "lora-rank-stabilised": {
        "name": "lora",
        "alpha": 3.0,
        "sites": ["attn"],
        "scaling": "rank_stabilised",
        "overrides": [{"sites": ["q"], "rank": 1}, {"sites": ["v"], "alpha": 0.5}],
    },
    "lora-dora": {"name": "lora", "dora": True, "sites": ["attn"]},
    "lora-pissa": {"name": "lora", "alpha": 3.0, "initialisation": "pissa"},
    "lora-olora": {"name": "lora", "sites": ["attn"], "initialisation": "olora"},
    "prefix-key-value": {"name": "prefix_tuning", "side": "key_value"},
    "prefix-network": {"name": "prefix_tuning", "reparameterisation": {"hidden": 3}},
    "suffix-input-only": {"name": "suffix_tuning", "scope": "input_only"},
    "prompt-vocabulary": {"name": "soft_prompt", "initialisation": "vocabulary"},
    "prefix-vocabulary": {"name": "prefix_tuning", "initialisation": "vocabulary"},
    "prefix-vocabulary-key-value": {
        "name": "prefix_tuning",
        "side": "key_value",
        "initialisation": "vocabulary",
    },
    "suffix-vocabulary": {"name": "suffix_tuning", "initialisation": "vocabulary"},
    "prefix-network-key-value": {
        "name": "prefix_tuning",
        "side": "key_value",
        "reparameterisation": {"hidden": 3},
    },
    "combine-four": {
        "name": "combine",
        "parts": ["ia3", "suffix_tuning", {"name": "lora", "dora": True}, "soft_prompt"],
    },
    "combine-network": {
        "name": "combine",
        "parts": [{"name": "prefix_tuning", "reparameterisation": {"hidden": 3}}, "lora"],
        "shares": [3, 1],
    },
}
"""Methods with knobs that change what is trained or how it acts."""


QUIET: dict[str, dict[str, object]] = {"fluentprompt": {"name": "fluentprompt", "noise": 0}}
"""Methods without the noise that they draw by trial, which has another number alone."""


def unsized(name: str) -> Method:
    """A registered method without any knob given, or one of the variants."""
    knobs = VARIANTS.get(name, QUIET.get(name, {"name": name}))
    return METHODS.get(str(knobs["name"])).model_validate_json(json.dumps(knobs))


def sized(name: str) -> Method:
    """Return a method of size two, which leaves something to check."""
    return unsized(name).with_size(2)


def one_larger(method: Method, shape: ModelShape) -> Iterator[Method]:
    """Yield each configuration with one budgeted size increased by one."""
    if isinstance(method, Combine):
        for index, part in enumerate(method.parts):
            for grown in one_larger(part, shape):
                parts = (*method.parts[:index], grown, *method.parts[index + 1 :])
                yield method.model_copy(update={"parts": parts})
    elif method.size_knob is not None:
        size = getattr(method, method.size_knob)
        if size < method.largest_size(shape):
            yield method.with_size(size + 1)


def base_tensors(plan: Plan, groups: int = 1) -> dict[str, torch.Tensor]:
    """Return random base weights [G, ...], large enough that all matter."""
    generator = torch.Generator().manual_seed(5)
    base = {
        name: torch.randn(groups, *tensor.shape, dtype=plan.dtype, generator=generator) * 0.3
        for name, tensor in plan.shape.tensors.items()
    }
    return with_companions(plan, base)


def trainables(plan: Plan, base: dict[str, torch.Tensor]) -> Trainables:
    return initial_trainables(plan, base)


def perturbed(plan: Plan, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the trained tensors plus noise, so that no initial zero remains."""
    generator = torch.Generator().manual_seed(9)
    return {
        name: t.detach() + 0.3 * torch.randn(t.shape, dtype=plan.dtype, generator=generator)
        for name, t in tensors.items()
    }


def items(plan: Plan, count: int = 3) -> Items:
    """Some items for every replicate of the plan."""
    found = make_items(plan.task, "train", plan.seeds, 0, count)
    return found.each(lambda tensor: tensor.repeat_interleave(plan.trials, 0))


def single(plan: Plan, replicate: int) -> Plan:
    """The plan of one replicate alone."""
    seed, trial = divmod(replicate, plan.trials)
    training = plan.training
    spec = plan.spec.model_copy(
        update={
            "seeds": (plan.spec.seeds[seed],),
            "base_replicates": (plan.spec.base_replicates[seed],),
            "training": training.model_copy(update={"trials": (training.trials[trial],)}),
        }
    )
    return replace(plan, spec=spec)
