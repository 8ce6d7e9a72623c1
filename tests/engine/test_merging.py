"""Merged models and nearest LoRAs, as `transformers` and `peft` load them."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.torch import save_file
from tests.engine.library_models import MODELS
from tests.engine.peft_adapters import drawn
from tests.engine.published import Pair, gpt2, llama, pair
from transformers import AutoModelForCausalLM

from adaptlab.engine.models.huggingface import load_folder
from adaptlab.errors import NoGgufForm, NotMergeable
from adaptlab.plugins.method import METHODS, Method
from adaptlab.running.merging import written
from adaptlab.runs.merge_request import MergeReport, MergeRequest
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt, write_resolved
from adaptlab.specs.spec import AdaptSpec

# peft 0.21 uses a property that transformers 5.23 has renamed; we can fix neither.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")

TASK = {"name": "sort_descending", "length": 4, "alphabet": 5}
OPTIONS: dict[str, dict[str, Any]] = {
    "lora": {"rank": 2, "dora": True, "sites": ["attn", "mlp", "unembed"]},
    "miss": {"rank": 2, "bat": True},
    "combine": {"parts": [{"name": "layernorm_tuning"}, {"name": "lora", "rank": 1}]},
    "loha": {"rank": 2, "alpha": 8},
}
NO_MERGE = {
    "adapter", "attention_bias", "autoprompt", "autoprompt_sgd", "exhaustive",
    "fluentprompt", "frozen", "llama_adapter", "ntk_attention", "pez", "prefix_tuning",
    "prefix_tuning_plus", "random_prompt", "soft_prompt", "suffix_tuning",
}  # fmt: skip
NOT_OF_THESE = {"head_only", "anchor_reweighting", "in_context"}
"""Methods that need classes or demonstrations."""


def job(both: Pair, method: dict[str, Any]) -> ResolvedAdapt:
    facts = BaseModelFacts(
        name="tiny", digest="0" * 64, family=both.ours.family, task=None, replicates=1
    )
    chosen = METHODS.get(method["name"]).model_validate(method)
    chosen = chosen.smallest() if chosen.size_is_free() else chosen
    document = {
        "base_model": "tiny", "task": TASK, "method": chosen.model_dump(mode="json"),
        "evaluation": {"samples": 20}, "budget": {},
    }  # fmt: skip
    found = resolve(AdaptSpec.model_validate(document), facts)
    assert isinstance(found, ResolvedAdapt)
    return found


def merged(
    both: Pair, folder: Path, method: dict[str, Any], **form: Any
) -> tuple[Method, dict[str, torch.Tensor], MergeReport]:
    """The method, its tensors, and the report of merging them."""
    spec = job(both, method)
    kept = spec.method.kept()
    tensors = drawn(kept, both)
    save_file(tensors, folder / "checkpoint.safetensors")
    request = MergeRequest(
        spec=write_resolved(spec),
        checkpoint=folder / "checkpoint.safetensors",
        base=folder / "base",
        folder=folder / "merged",
        **form,
    )
    return kept, tensors, written(request)


def their_logits(folder: Path, both: Pair) -> torch.Tensor:
    theirs: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return theirs(both.tokens()).logits


@pytest.mark.long("every combination", but=5)
@pytest.mark.parametrize("model", ["gpt2", "llama", "phi3"])
@pytest.mark.parametrize("name", [name for name in METHODS.names() if name not in NOT_OF_THESE])
def test_a_method_is_merged_or_refused(name: str, model: str, tmp_path: Path):
    make = {"gpt2": gpt2, "llama": llama, **MODELS}[model]
    both = pair(make, tmp_path / "base", double=False)
    method = {"name": name, **OPTIONS.get(name, {})}
    if name == "bitfit" and model != "gpt2":
        return  # no biases
    if name in NO_MERGE:
        with pytest.raises(NotMergeable, match=r"(adapt with|changes no weight)"):
            merged(both, tmp_path, method)
        return
    kept, tensors, report = merged(both, tmp_path, method)
    assert (both.adapted(kept, tensors) - both.logits()).abs().max() > 5e-3
    difference = their_logits(tmp_path / "merged", both) - both.adapted(kept, tensors)
    assert difference.abs().max() < 2e-4
    assert report.worst is not None
    assert report.worst.rounding < 1e-5


def test_a_part_that_reads_queries_is_not_left_out_of_a_merge(tmp_path: Path):
    both = pair(llama, tmp_path / "base", double=False)
    parts = [{"name": "lora", "rank": 1}, {"name": "ntk_attention"}]
    with pytest.raises(NotMergeable, match="between the matrices"):
        merged(both, tmp_path, {"name": "combine", "parts": parts})


TIED = {"name": "full_finetuning"}, {"name": "lora", "rank": 2, "sites": ["unembed"]}


@pytest.mark.parametrize("method", TIED, ids=["embedding", "head"])
@pytest.mark.parametrize("shards", ["1GB", "9KB"], ids=["one-file", "shards"])
def test_tied_weights_shards_and_the_dtype_of_the_base(
    method: dict[str, Any], shards: str, tmp_path: Path
):
    theirs: Any = llama(tie_word_embeddings=True).bfloat16()
    theirs.save_pretrained(tmp_path / "base", max_shard_size=shards)
    both = Pair(theirs, load_folder(tmp_path / "base"), double=False)
    kept, tensors, report = merged(both, tmp_path, method)
    names = {path.name for path in (tmp_path / "base").iterdir()}
    assert {path.name for path in (tmp_path / "merged").iterdir()} == names
    stays_tied = method["name"] == "full_finetuning"
    found: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype="auto")
    assert found.dtype == torch.bfloat16
    assert found.config.tie_word_embeddings is stays_tied
    difference = their_logits(tmp_path / "merged", both) - both.adapted(kept, tensors)
    assert difference.abs().max() < 0.05 * both.adapted(kept, tensors).abs().max()
    assert report.worst is not None
    assert 0 < report.worst.rounding < 0.1


@pytest.mark.parametrize("name", ["full_finetuning", "loha", "hira", "miss", "vera", "oft", "c3a"])
def test_other_methods_as_lora_of_full_rank(name: str, tmp_path: Path):
    both = pair(llama, tmp_path / "base", double=False)
    kept, tensors, report = merged(both, tmp_path, {"name": name}, form="lora", rank=24)
    assert max(one.rounding for one in report.sites) < 1e-5
    if name == "full_finetuning":
        assert {"embed.weight", "final_norm.weight"} <= {*report.lost}
        return
    model: Any = PeftModel.from_pretrained(both.theirs, tmp_path / "merged").eval()
    with torch.no_grad():
        theirs = model(both.tokens()).logits
    assert (theirs - both.adapted(kept, tensors)).abs().max() < 2e-4


def test_the_error_of_a_lower_rank_is_that_of_the_singular_values(tmp_path: Path):
    both = pair(llama, tmp_path / "base", double=False)
    kept, tensors, report = merged(both, tmp_path, {"name": "loha", "rank": 2}, form="lora", rank=1)
    one = next(site for site in report.sites if site.name == "blocks.0.attn.q.weight")
    a1, b1, a2, b2 = (tensors[f"blocks.0.attn.q.{part}"] for part in ("a1", "b1", "a2", "b2"))
    s = torch.linalg.svdvals((b1 @ a1) * (b2 @ a2))
    assert one.rounding == pytest.approx(float(s[1:].norm() / s.norm()), rel=1e-4)
    assert kept.name == "loha"


@pytest.mark.parametrize("form", ["own", "lora"])
def test_llama_cpp_reads_names_shapes_and_rotary_rows(form: str, tmp_path: Path):
    """Rows i and i + d/2 of a head are side by side in the format."""
    both = pair(llama, tmp_path / "base", double=False)
    overrides = [{"sites": ["v"], "rank": 3, "alpha": 5}]
    method = {"name": "lora", "rank": 2, "sites": ["attn", "down"], "overrides": overrides}
    kept, tensors, _ = merged(both, tmp_path, method, form=form, rank=3, is_gguf=True)
    reader = gguf.GGUFReader(tmp_path / "merged" / "adapter.gguf")
    alpha = reader.fields["adapter.lora.alpha"].contents()
    assert reader.fields["general.architecture"].contents() == "llama"
    found = {tensor.name: tensor.data for tensor in reader.tensors}
    own = {"attn_q": "attn.q", "attn_k": "attn.k", "attn_v": "attn.v", "attn_output": "attn.o",
           "ffn_down": "mlp.down"}  # fmt: skip
    assert len(found) == 2 * 2 * len(own)
    for theirs, site in own.items():
        a, b = (found[f"blk.1.{theirs}.weight.lora_{part}"] for part in "ab")
        ours_a, ours_b = (tensors[f"blocks.1.{site}.{part}"].numpy() for part in "ab")
        update = ours_b @ ours_a * (5 / 3 if site == "attn.v" else 1 / 2)
        if site in ("attn.q", "attn.k"):
            size = 24 // 4
            order = [h + i + half for h in range(0, len(update), size)
                     for i in range(size // 2) for half in (0, size // 2)]  # fmt: skip
            update = update[order]
        assert np.allclose(alpha / len(a) * (b @ a), update, atol=1e-5), theirs
    assert kept.name == "lora"


def test_what_llama_cpp_does_not_apply(tmp_path: Path):
    both = pair(llama, tmp_path / "base", double=False)
    for method, named in (({"name": "ia3"}, "IA3"), (OPTIONS["lora"] | {"name": "lora"}, "DoRA")):
        with pytest.raises(NoGgufForm, match=f"not {named}.*--as lora"):
            merged(both, tmp_path, method, form="own", is_gguf=True)
