"""Imported adapters: our engine next to `peft`.

The folders are ours and those of `peft` itself.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import (
    IA3Config,
    LNTuningConfig,
    LoraConfig,
    PeftConfig,
    PrefixTuningConfig,
    PromptTuningConfig,
    get_peft_model,
)
from safetensors.torch import load_file, save_file
from tests.engine.library_models import MODELS as LIBRARY_MODELS
from tests.engine.making import Remembering
from tests.engine.peft_adapters import METHODS, drawn, exported, imported, logits, written
from tests.engine.published import Pair, gpt2, llama, pair
from tests.engine.running import run
from tests.peft_folders import ADAPTER_WEIGHTS, a_peft_folder, lora_tensors

from adaptlab.errors import BadAdapter
from adaptlab.exchange.adapter_folder import read_adapter
from adaptlab.exchange.plugins import AttachedAdapter
from adaptlab.methods.lora import Lora
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import (
    AttentionCaptured,
    CheckpointWritten,
    Evaluated,
    Finished,
    ReplicatesDecided,
)
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.cost import Load, work
from adaptlab.specs.resolve import resolve_adapter
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab.specs.spec import AdaptSpec, ModelFolder
from adaptlab.weights.placed_folder import PlacedFolder

# peft 0.21 uses a property that transformers 5.23 has renamed; we can fix neither.
# It also warns that an adapter at a tied head cannot be merged, which nobody does here.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning"),
    # Nor does it know norms as layers, of which it only copies the weights.
    pytest.mark.filterwarnings("ignore:Unsupported layer type:UserWarning"),
]

MODELS = {
    "gpt2": gpt2,
    "llama": llama,
    **{name: LIBRARY_MODELS[name] for name in ("phi3", "opt")},
}


@pytest.mark.long("every combination", but="each")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("chosen", METHODS)
def test_what_was_exported_comes_back(name: str, chosen: str, tmp_path: Path):
    both = pair(MODELS[name], tmp_path / "base", double=False)
    method = METHODS[chosen](both).kept()
    tensors = drawn(method, both)
    found = imported(both, written(tmp_path / "adapter", exported(both, method, tensors)))
    assert found.method.name == method.name
    assert found.tensors.keys() == tensors.keys()
    for tensor_name, tensor in tensors.items():
        assert np.array_equal(found.tensors[tensor_name], tensor.numpy()), tensor_name
    if isinstance(method, Lora):
        assert isinstance(found.method, Lora)
        shape = both.ours.family.shape()
        for site in method.chosen_sites(shape):
            assert found.method.rank_at(site) == method.rank_at(site)
            assert found.method.scale_at(site) == method.scale_at(site)
    assert torch.equal(logits(both, found), both.adapted(method, tensors))


THEIRS: dict[str, PeftConfig] = {
    "lora": LoraConfig(r=3, lora_alpha=5, target_modules=["q_proj", "v_proj"]),
    "rank-stabilised": LoraConfig(r=3, target_modules=["o_proj", "q_proj"], use_rslora=True),
    "dora": LoraConfig(r=2, target_modules=["q_proj", "down_proj"], use_dora=True),
    "everywhere": LoraConfig(r=2, target_modules="all-linear"),
    "ranks": LoraConfig(
        r=3,
        lora_alpha=5,
        target_modules=["q_proj", "v_proj"],
        rank_pattern={"0.self_attn.q_proj": 5, "v_proj": 2},
        alpha_pattern={"0.self_attn.q_proj": 7},
    ),
    "norms": LNTuningConfig(target_modules=["norm", "input_layernorm"], task_type="CAUSAL_LM"),
    "ia3": IA3Config(target_modules=["k_proj", "v_proj"], feedforward_modules=[]),
    "prefix": PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
    "projected": PrefixTuningConfig(
        num_virtual_tokens=3, task_type="CAUSAL_LM", prefix_projection=True, encoder_hidden_size=7
    ),
    "prompt": PromptTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM"),
}


@pytest.mark.parametrize("chosen", THEIRS)
def test_we_compute_what_peft_has_saved(chosen: str, tmp_path: Path):
    both = pair(llama, tmp_path / "base", double=False)
    check_against_peft(both, THEIRS[chosen], tmp_path / "adapter")


@pytest.mark.parametrize(
    "config",
    [
        LoraConfig(r=2, target_modules=["c_attn", "c_proj"], task_type="CAUSAL_LM"),
        LoraConfig(r=2, target_modules=["c_attn"], use_dora=True, task_type="CAUSAL_LM"),
    ],
    ids=["lora", "dora"],
)
@pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to False:UserWarning")
def test_a_fused_module_that_peft_has_adapted(config: PeftConfig, tmp_path: Path):
    """One update of c_attn becomes three of q, k and v.

    c_proj is also in the MLP.
    """
    check_against_peft(pair(gpt2, tmp_path / "base", double=False), config, tmp_path / "adapter")


def check_against_peft(both: Pair, config: PeftConfig, folder: Path) -> None:
    plain = both.logits()
    torch.manual_seed(5)
    model = get_peft_model(both.theirs, config).eval()
    for parameter in (p for p in model.parameters() if p.requires_grad):
        with torch.no_grad():
            parameter.add_(0.3 * torch.randn_like(parameter))
    with torch.no_grad():
        theirs = model(both.tokens()).logits[:, -plain.shape[1] :]  # without virtual tokens
    model.save_pretrained(str(folder))
    ours = logits(both, imported(both, folder))
    assert (ours - plain).abs().max() > 0.05
    assert (ours - theirs).abs().max() < 1e-5


def test_half_precision_is_read(tmp_path: Path):
    """numpy, which writes the folders of other tests, has no bfloat16."""
    folder = a_peft_folder(tmp_path / "lora")
    halves = {n: torch.from_numpy(t).bfloat16() for n, t in lora_tensors().items()}
    save_file(halves, folder / ADAPTER_WEIGHTS)
    found = read_adapter(folder).tensors
    assert all(np.array_equal(found[name], half.float().numpy()) for name, half in halves.items())


TASK = {"name": "sort_descending", "length": 4, "alphabet": 5}


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


@pytest.mark.parametrize("chosen", ["lora", "soft-prompt"])
def test_a_run_stores_the_adapter_as_a_checkpoint(chosen: str, tmp_path: Path, scratch: Path):
    both = pair(gpt2, tmp_path / "base", double=False)
    method = METHODS[chosen](both)
    tensors = drawn(method, both)
    folder = written(tmp_path / "adapter", exported(both, method, tensors))
    spec = resolved(both, imported(both, folder), folder, capture={"attention": {"samples": 1}})
    observer = evaluated(spec, both, folder, scratch)
    assert Expected.of(spec).problems(observer.events) == ()
    (decided,) = observer.of(ReplicatesDecided)
    (replicate,) = decided.replicates
    assert (replicate.seed, replicate.steps, replicate.selected) == (6, 0, True)
    (kept,) = observer.of(CheckpointWritten)
    assert kept.checkpoint.parameters == spec.budget.trainable_parameters
    stored = load_file(kept.path)
    assert all(torch.equal(stored[name], tensor) for name, tensor in tensors.items())
    assert {e.evaluation.attached for e in observer.of(Evaluated)} == {True, False}
    assert {c.attention.source for c in observer.of(AttentionCaptured)} == {"base", "adapted"}
    (finished,) = observer.of(Finished)
    assert finished.usage.training_steps == 0
    assert work(spec).training == Load()


FUSED = {
    "gpt2-default": ("gpt2", None),
    "gpt2-everything": ("gpt2", ["c_attn", "c_proj", "c_fc"]),
    "phi3": ("phi3", ["qkv_proj", "gate_up_proj"]),
}


@pytest.mark.parametrize("case", FUSED)
@pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to False:UserWarning")
def test_a_run_stores_an_adapter_of_fused_modules(case: str, tmp_path: Path, scratch: Path):
    name, targets = FUSED[case]
    both = pair(MODELS[name], tmp_path / "base", double=False)
    config = LoraConfig(r=2, target_modules=targets, task_type="CAUSAL_LM")
    check_against_peft(both, config, tmp_path / "adapter")
    adapter = imported(both, tmp_path / "adapter")
    spec = resolved(both, adapter, tmp_path / "adapter")
    observer = evaluated(spec, both, tmp_path / "adapter", scratch)
    (kept,) = observer.of(CheckpointWritten)
    stored = load_file(kept.path)
    for tensor, values in adapter.tensors.items():
        assert np.array_equal(stored[tensor].numpy(), values)


DECIDED = {
    "pattern": {"target_modules": r"model\.layers\.\d+\.self_attn\.(q|v)_proj"},
    "pattern-of-ends": {"target_modules": r".*\.(q_proj|v_proj)$"},
    "pattern-that-is-not-tried": {"target_modules": "(a*)*" * 50 + ".*"},
    "all-linear": {"target_modules": "all-linear"},
    "layers": {"layers_to_transform": [0, 1], "layers_pattern": "layers"},
    "excluded": {"exclude_modules": ["o_proj"]},
    "excluded-pattern": {"exclude_modules": r".*mlp.*"},
    "tying": {"ensure_weight_tying": True},
    "eva": {"init_lora_weights": "eva", "eva_config": {"rho": 2.0}},
}


@pytest.mark.parametrize("case", DECIDED)
def test_members_that_the_tensors_decide_are_ignored(case: str, tmp_path: Path):
    both = pair(llama, tmp_path / "base", double=False)
    config = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    check_against_peft(both, config, tmp_path / "adapter")
    expected = imported(both, tmp_path / "adapter")
    reconfigured(tmp_path / "adapter", DECIDED[case])
    assert imported(both, tmp_path / "adapter").method == expected.method


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"target_modules": r".*\.q_proj"}, "v_proj, which target_modules of adapter_config"),
        ({"layers_to_transform": 0}, r"layers\.1\..*, which layers_to_transform of"),
        ({"layers_to_transform": [1]}, r"layers\.0\..*, which layers_to_transform of"),
        ({"exclude_modules": ["v_proj"]}, "v_proj, which exclude_modules of"),
        ({"exclude_modules": r".*\.1\..*q_proj"}, r"1\.self_attn\.q_proj, which exclude_modules"),
    ],
)
def test_members_that_contradict_the_tensors_are_named(
    members: dict[str, object], told: str, tmp_path: Path
):
    both = pair(llama, tmp_path / "base", double=False)
    config = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    check_against_peft(both, config, tmp_path / "adapter")
    reconfigured(tmp_path / "adapter", members)
    with pytest.raises(BadAdapter, match=told):
        imported(both, tmp_path / "adapter")


def reconfigured(folder: Path, members: dict[str, object]) -> None:
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | members))


def test_a_folder_that_has_changed_fails_the_run(tmp_path: Path, scratch: Path):
    both = pair(llama, tmp_path / "base", double=False)
    method = METHODS["lora"](both)
    folder = written(tmp_path / "adapter", exported(both, method, drawn(method, both)))
    spec = resolved(both, imported(both, folder), folder)
    other = imported(both, folder).method.model_copy(update={"alpha": 2.0})
    with pytest.raises(BadAdapter, match="reads the adapter in models/adapter differently"):
        evaluated(spec.model_copy(update={"method": other}), both, folder, scratch)
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(BadAdapter, match="is not as it was when the job was created"):
        evaluated(spec, both, folder, scratch)


def resolved(
    both: Pair, adapter: AttachedAdapter, folder: Path, **changes: object
) -> ResolvedAdapt:
    facts = BaseModelFacts(
        name="tiny", digest="0" * 64, family=both.ours.family, task=None, replicates=1
    )
    document = {
        "base_model": "tiny", "task": TASK, "adapter": "models/adapter", "seeds": [6],
        "evaluation": {"samples": 20}, **changes,
    }  # fmt: skip
    files = ModelFolder(folder="models/adapter", files=read_adapter(folder).files)
    return resolve_adapter(AdaptSpec.model_validate(document), facts, adapter.method, files)


def evaluated(spec: ResolvedAdapt, both: Pair, folder: Path, scratch: Path) -> Remembering:
    base, observer = scratch / "base-0.safetensors", Remembering()
    save_file({name: tensor.clone() for name, tensor in both.ours.tensors.items()}, base)
    assert spec.adapter is not None
    placed = PlacedFolder(path=folder, name=spec.adapter.folder, files=spec.adapter.files)
    run(spec, (base,), scratch, observer, "cpu", adapter=placed, clock=lambda: 0.0)
    return observer
