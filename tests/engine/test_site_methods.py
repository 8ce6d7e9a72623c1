"""Methods at weight matrices against `peft`.

First at one matrix in float64, outputs and gradients; then whole models by exported folders.
"""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import (
    C3AConfig,
    HiraConfig,
    LoHaConfig,
    LoraConfig,
    MissConfig,
    OFTConfig,
    PeftConfig,
    get_peft_model,
)
from tests.engine.library_models import MODELS as LIBRARY_MODELS
from tests.engine.peft_adapters import (
    drawn,
    exported,
    imported,
    llama_module,
    loaded,
    logits,
    written,
)
from tests.engine.published import Pair, gpt2, llama, pair
from torch import Tensor, nn

from adaptlab.engine.methods.shira import places
from adaptlab.engine.methods.vera import projections
from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_FOLDS, ENGINE_METHODS
from adaptlab.engine.training.decomposed import companions_of
from adaptlab.errors import NoPeftForm
from adaptlab.exchange.peft_methods import c3a, hira, loha, miss, oft
from adaptlab.exchange.site_forms import SiteForm
from adaptlab.methods.c3a import C3a
from adaptlab.methods.hira import Hira
from adaptlab.methods.loha import Loha
from adaptlab.methods.lora import Lora
from adaptlab.methods.miss import Miss
from adaptlab.methods.oft import Oft
from adaptlab.methods.shira import Shira
from adaptlab.methods.vera import Vera
from adaptlab.plugins.shapes import ModelShape, Site
from adaptlab.plugins.sited_method import SizedAtSites

pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning"),
]

R = 3  # replicates
INPUTS, OUTPUTS = 24, 48
SITE = Site("blocks.0.attn.q", "linear", INPUTS, OUTPUTS, 0)
SHAPE = ModelShape("one", INPUTS, 1, 1, OUTPUTS, 8, 8, {SITE.name: SITE})

HERE = ["q"]
CASES: dict[str, tuple[SizedAtSites, SiteForm, PeftConfig]] = {
    "c3a": (C3a(parts=3), c3a.FORM, C3AConfig(block_size=8, target_modules=HERE)),
    "hira": (Hira(rank=3), hira.FORM, HiraConfig(r=3, target_modules=HERE)),
    "miss": (Miss(rank=4), miss.FORM, MissConfig(r=4, target_modules=HERE)),
    "miss-that-does-not-divide": (Miss(rank=5), miss.FORM, MissConfig(r=5, target_modules=HERE)),
    "bat": (
        Miss(rank=4, bat=True),
        miss.FORM,
        MissConfig(r=4, init_weights="bat", target_modules=HERE),
    ),
    "loha": (Loha(rank=3, alpha=6), loha.FORM, LoHaConfig(r=3, alpha=6, target_modules=HERE)),
    "oft": (
        Oft(block=6),
        oft.FORM,
        OFTConfig(oft_block_size=6, r=0, use_cayley_neumann=False, target_modules=HERE),
    ),
}


class OneMatrix(nn.Module):
    """A model of one matrix."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.q = nn.Linear(INPUTS, OUTPUTS, bias=False, dtype=torch.float64)
        self.q.weight.data = weight

    def forward(self, x: Tensor) -> Tensor:
        return self.q(x)


def values(method: SizedAtSites) -> dict[str, Tensor]:
    """Random tensors [R, ...] of a method at the site."""
    generator = torch.Generator().manual_seed(3)
    shapes = method.tensors_at(SITE)
    made = {
        part: 0.3 * torch.randn(R, *shape.shape, generator=generator, dtype=torch.float64)
        for part, shape in shapes.items()
    }
    return {f"{SITE.name}.{part}": tensor.requires_grad_() for part, tensor in made.items()}


def output(attached: Attachments, x: Tensor, weight: Tensor) -> Tensor:
    """What the site gives [R, B, O] for x [R, B, I] with hooks."""
    x = attached.inputs[SITE.name](x) if SITE.name in attached.inputs else x
    y = x @ weight.T
    if SITE.name in attached.products:
        y = attached.products[SITE.name](x, y, weight.unsqueeze(0))
    return attached.outputs[SITE.name](x, y) if SITE.name in attached.outputs else y


def inputs() -> tuple[Tensor, Tensor]:
    """x [R, B, I] and a weight [O, I]."""
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(R, 7, INPUTS, generator=generator, dtype=torch.float64)
    return x, torch.randn(OUTPUTS, INPUTS, generator=generator, dtype=torch.float64) / 5


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients_at_a_matrix_are_those_of_peft(case: str):
    method, form, config = CASES[case]
    own, (x, weight) = values(method), inputs()
    rounding = 1e-6 if case == "c3a" else 1e-12  # its FFT in peft is in float32
    attached = ENGINE_METHODS.get(method.name)(method, SHAPE, own)
    ours = output(attached, x, weight)
    target = torch.linspace(-1, 1, ours.numel(), dtype=torch.float64).view_as(ours)
    (ours * target).sum().backward()
    assert (ours - x @ weight.T).abs().max() > 0.05
    for replicate in range(R):
        model: Any = get_peft_model(OneMatrix(weight.clone()), config).double()  # pyright: ignore[reportArgumentType]
        named = dict(model.named_parameters())
        pairs = {part: theirs(named, kind) for kind, part in form.kinds.items()}
        for part, parameter in pairs.items():
            parameter.data = own[f"{SITE.name}.{part}"].detach()[replicate].clone()
        found = model(x[replicate])
        assert torch.allclose(ours[replicate], found, rtol=0, atol=rounding)
        (found * target[replicate]).sum().backward()
        for part, parameter in pairs.items():
            gradient = own[f"{SITE.name}.{part}"].grad
            assert gradient is not None
            assert torch.allclose(gradient[replicate], parameter.grad, rtol=0, atol=10 * rounding)


def theirs(named: Mapping[str, Any], kind: str) -> Any:
    """Return the parameter of a kind, such as `oft_R.weight`."""
    stem, _, rest = kind.partition(".")
    wanted = f".q.{stem}.default{f'.{rest}' if rest else ''}"
    return next(parameter for name, parameter in named.items() if name.endswith(wanted))


def test_vera_is_a_frozen_update_with_two_scales():
    """Against the whole matrix diag(b) B diag(d) A."""
    method = Vera(rank=5)
    own, (x, weight) = values(method), inputs()
    a, b = projections(method, SHAPE)
    ours = output(ENGINE_METHODS.get("vera")(method, SHAPE, own), x, weight)
    for replicate in range(R):
        of_outputs, of_ranks = (own[f"{SITE.name}.{part}"][replicate] for part in "bd")
        whole = weight + of_outputs[:, None] * (b[0] @ (of_ranks[:, None] * a[0]))
        assert torch.allclose(ours[replicate], x[replicate] @ whole.T, rtol=0, atol=1e-12)
    assert a.abs().max() <= (6 / INPUTS) ** 0.5
    assert a.square().mean().item() == pytest.approx(2 / INPUTS, rel=0.2)
    other = projections(method.model_copy(update={"projection_seed": 1}), SHAPE)
    assert not torch.equal(other.a, a)


def test_shira_changes_weights_at_distinct_places():
    method = Shira(entries=100)
    own, (x, weight) = values(method), inputs()
    where = places(0, SITE, 100, torch.device("cpu"))
    assert len(set(where.tolist())) == 100
    assert places(1, SITE, 100, torch.device("cpu")).tolist() != where.tolist()
    ours = output(ENGINE_METHODS.get("shira")(method, SHAPE, own), x, weight)
    for replicate in range(R):
        whole = weight.flatten().clone()
        whole[where] += own[f"{SITE.name}.values"][replicate]
        whole = whole.view(OUTPUTS, INPUTS)
        assert torch.allclose(ours[replicate], x[replicate] @ whole.T, rtol=0, atol=1e-12)


MODELS = {
    "gpt2": gpt2,
    "llama": llama,
    **{name: LIBRARY_MODELS[name] for name in ("qwen3", "opt", "gpt-neox")},
}
OF_SITES = ("o", "mlp.down")
EXPORTED: dict[str, Callable[[tuple[str, ...]], SizedAtSites]] = {
    "c3a": lambda sites: C3a(parts=5, sites=sites),
    "hira": lambda sites: Hira(rank=2, sites=sites),
    "miss": lambda sites: Miss(rank=3, sites=sites),
    "bat": lambda sites: Miss(rank=2, bat=True, sites=sites),
    "loha": lambda sites: Loha(rank=2, alpha=3, sites=sites),
    "oft": lambda sites: Oft(block=4, sites=sites),
}


def sited(both: Pair, chosen: str) -> SizedAtSites:
    shape = both.ours.family.shape()
    return EXPORTED[chosen](tuple(site for site in OF_SITES if shape.matching_sites(site)))


@pytest.mark.long("every combination", but="each")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("chosen", EXPORTED)
def test_a_folder_goes_to_peft_and_comes_back(name: str, chosen: str, tmp_path: Path):
    both = pair(MODELS[name], tmp_path / "base", double=False)
    method = sited(both, chosen)
    tensors = drawn(method, both)
    if name == "gpt2" and chosen != "hira":
        with pytest.raises(NoPeftForm, match="stored transposed"):
            exported(both, method, tensors)
        return
    files = exported(both, method, tensors)
    back = imported(both, written(tmp_path / "back", files))
    ours = both.adapted(method, tensors)
    assert torch.equal(logits(both, back), ours)
    with torch.no_grad():
        found = loaded(both, files, tmp_path / "adapter")(both.tokens()).logits
    assert (ours - both.logits()).abs().max() > 0.05
    assert (ours - found).abs().max() < 1e-5 * ours.abs().max()


def test_fused_modules_are_refused_by_name(tmp_path: Path):
    both = pair(gpt2, tmp_path / "base", double=False)
    method = Hira(rank=2)
    with pytest.raises(NoPeftForm, match=r"c_attn is one module for blocks\.0\.attn\.q"):
        exported(both, method, drawn(method, both))


@pytest.mark.parametrize("start", ["pissa", "olora"])
def test_a_start_from_decomposed_weights_is_that_of_peft(start: str, tmp_path: Path):
    """PEFT changes the base's weights; ours stay, and the start is subtracted."""
    both = pair(llama, tmp_path / "base", double=False)
    method = Lora(rank=3, alpha=6, sites=("q", "v", "down"), initialisation=start)  # pyright: ignore[reportArgumentType]
    shape = both.ours.family.shape()
    base = {name: tensor.unsqueeze(0) for name, tensor in both.ours.tensors.items()}
    parts = companions_of(method, shape, base)
    config = LoraConfig(
        r=3, lora_alpha=6, init_lora_weights=start,  # pyright: ignore[reportArgumentType]
        target_modules=["q_proj", "v_proj", "down_proj"],
    )  # fmt: skip
    model = get_peft_model(copy.deepcopy(both.theirs), config)
    trained: dict[str, Tensor] = {}
    noise = torch.Generator().manual_seed(1)
    for site in method.chosen_sites(shape):
        module = llama_module(model, site.name)
        a, b = module.lora_A.default.weight, module.lora_B.default.weight
        own_a, own_b = (parts[f"{site.name}.start.{part}"][0] for part in "ab")
        assert torch.allclose(own_b @ own_a, b @ a, rtol=0, atol=1e-5)
        for part, tensor in (("a", a), ("b", b)):  # signs are theirs
            tensor.data = tensor.data + 0.1 * torch.randn(tensor.shape, generator=noise)
            trained[f"{site.name}.{part}"] = tensor.detach().clone()
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in trained.items()}
    found = both.adapted(method, {**leaves, **{n: t[0] for n, t in parts.items()}})
    theirs = model(both.tokens()).logits
    target = torch.linspace(-1, 1, theirs.numel()).view_as(theirs)
    (found * target).sum().backward()
    (theirs * target).sum().backward()
    assert (found - theirs).abs().max() < 1e-5
    for name, leaf in leaves.items():
        site, _, part = name.rpartition(".")
        expected = getattr(llama_module(model, site), f"lora_{part.upper()}").default.weight.grad
        assert leaf.grad is not None
        assert (leaf.grad - expected).abs().max() < 1e-5 * max(1, expected.abs().max())
    stacked = {n: t.unsqueeze(0) for n, t in trained.items()} | parts
    stored = {n: t[0] for n, t in ENGINE_FOLDS.get("lora")(method, shape, stacked).items()}
    files = exported(both, method, stored)
    with torch.no_grad():
        left = loaded(both, files, tmp_path / "adapter")(both.tokens()).logits
    assert (left - theirs).abs().max() < 1e-5
