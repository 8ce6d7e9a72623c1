"""Base models in four bits: the published levels, and adaptations of them."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist

import pytest
import torch
from safetensors.torch import load_file
from tests.engine.four_bits import a_job, restored
from tests.engine.imported import placed, resolved
from tests.engine.library_models import MODELS
from tests.engine.making import Remembering
from tests.engine.published import gpt2, llama, pair, randomised
from tests.engine.running import run
from tests.folders import a_qwen3_folder
from torch import Tensor

from adaptlab.engine.kernels.memory import saved_bytes
from adaptlab.engine.models import nf4
from adaptlab.engine.models.attachments import NOTHING_ATTACHED
from adaptlab.engine.models.base_weights import BaseWeights
from adaptlab.engine.models.nf4 import LEVELS, Packed
from adaptlab.engine.models.plan import make_plan
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.errors import InvalidSpec, OutOfMemory
from adaptlab.runs.events import (
    AttentionCaptured,
    CheckpointWritten,
    Evaluated,
    ReplicatesDecided,
    Started,
)
from adaptlab.specs.quantised import base_bytes, quantised_sites
from adaptlab.specs.resolved import ResolvedImport


def random_matrix(rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(3))


def test_the_levels_are_quantiles_of_the_normal_distribution() -> None:
    """They are as in the reference implementation of QLoRA.

    Eight quantiles above 0, seven below, from the same probability, divided by the largest.
    """
    offset, quantile = 0.9677083, NormalDist().inv_cdf

    def spaced(count: int) -> list[float]:
        return [quantile(offset + (0.5 - offset) * k / count) for k in range(count)]

    above, below = spaced(8), spaced(7)
    expected = sorted([*above, 0.0, *(-value for value in below)])
    assert [value / max(expected) for value in expected] == pytest.approx(LEVELS, abs=1e-6)


def test_numbers_at_the_levels_are_restored_exactly_from_half_a_byte_each() -> None:
    matrix = 2 * torch.tensor(LEVELS).repeat(4).view(2, 32)  # one block with the magnitude 2
    packed = Packed.of(matrix)
    assert packed.codes.shape == (1, 2, 16)
    assert packed.codes[0, 0, :3].tolist() == [0x01, 0x23, 0x45]
    assert torch.equal(packed.restored(torch.float32), matrix)


@pytest.mark.parametrize("shape", [(300, 256), (3, 22)])
def test_an_error_is_at_most_half_a_gap_and_that_of_the_magnitude(shape: tuple[int, int]) -> None:
    matrix = random_matrix(*shape)
    errors = (Packed.of(matrix).restored(torch.float32) - matrix).abs().flatten()
    blocks = torch.nn.functional.pad(matrix.flatten(), (0, -matrix.numel() % 64)).view(-1, 64)
    largest = blocks.abs().amax(1)
    of_magnitude = (largest - largest.mean()).abs().max() / 254  # half a step of eight bits
    gap = max(b - a for a, b in pairwise(LEVELS)) / 2
    bound = gap * (largest + of_magnitude) + of_magnitude
    assert bool((errors <= bound.repeat_interleave(64)[: matrix.numel()] + 1e-6).all())
    assert 0.05 < errors.square().mean().sqrt() < 0.12  # 9 % of normal numbers, as measured before


def test_a_product_and_its_gradient_are_those_of_the_restored_matrix() -> None:
    packed, x = Packed.of(random_matrix(6, 10)), random_matrix(4, 10).double().view(1, 2, 2, 10)
    restored = packed.restored(torch.float64)
    x.requires_grad_()
    assert torch.equal(nf4.linear(x, packed), x @ restored.T)
    assert torch.autograd.gradcheck(lambda x: nf4.linear(x, packed), x)
    kept = saved_bytes(lambda: nf4.linear(x, packed), packed)
    assert kept == 0  # neither the matrix as floats nor the input


FOLDERS: dict[str, Callable[[Path], object]] = {
    "llama": lambda folder: randomised(llama, double=False).save_pretrained(folder),
    "gpt2": lambda folder: randomised(gpt2, double=False).save_pretrained(folder),
    "transformers": a_qwen3_folder,
}


def trained(spec: ResolvedImport, folder: Path, scratch: Path, precision: str) -> Remembering:
    observer = Remembering()
    scratch.mkdir()
    job = a_job(spec, precision)
    run(job, (), scratch, observer, "cpu", folder=placed(spec, folder))
    return observer


@pytest.mark.parametrize("family", FOLDERS)
def test_an_adaptation_of_four_bits_is_that_of_the_restored_floats(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training, scores and recorded attention are the same."""
    folder = tmp_path / "model"
    FOLDERS[family](folder)
    packed, floats = both(folder, tmp_path, "float64", monkeypatch)
    for ours, theirs in zip(
        packed.of(CheckpointWritten), floats.of(CheckpointWritten), strict=True
    ):
        one, other = load_file(ours.path), load_file(theirs.path)
        assert all(torch.allclose(one[n], other[n], atol=1e-9) for n in one.keys() | other.keys())
    scores = [[e.evaluation.outcomes for e in each.of(Evaluated)] for each in (packed, floats)]
    recorded = [
        [summary.entropy for c in each.of(AttentionCaptured) for summary in c.attention.summaries]
        for each in (packed, floats)
    ]
    assert scores[0] == scores[1]
    assert recorded[0] == pytest.approx(recorded[1])


def test_steps_in_bfloat16_read_four_bits_as_bfloat16(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_qwen3_folder(tmp_path / "model")
    packed, floats = both(tmp_path / "model", tmp_path, "bfloat16", monkeypatch)
    losses = [
        [replicate.final_loss for replicate in each.of(ReplicatesDecided)[0].replicates]
        for each in (packed, floats)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.01)


def both(
    folder: Path, scratch: Path, precision: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Remembering, Remembering]:
    """A run on four bits, and one on the floats that they stand for."""
    spec = resolved(folder)
    monkeypatch.setattr(nf4, "check_device", lambda device: None)
    packed = trained(spec, folder, scratch / "packed", precision)
    monkeypatch.setattr(nf4, "quantised", restored)
    return packed, trained(spec, folder, scratch / "floats", precision)


@pytest.mark.parametrize("name", ["phi3", "gpt-neox", "mixtral", "opt", "modernbert"])
def test_fused_matrices_experts_and_encoders_read_four_bits(name: str, tmp_path: Path) -> None:
    """Some have matrices side by side, or the tokens of all items in one axis."""
    both = pair(MODELS[name], tmp_path / "model", double=True)
    family, tokens = both.ours.family, both.tokens().unsqueeze(0)
    shape = family.shape()
    names = frozenset(f"{site.name}.weight" for site in quantised_sites(shape))
    forward = ENGINE_FAMILIES.get(family.name)
    packed, floats = (
        forward(
            family,
            dict(way(both.ours.tensors.items(), names)),
            *(tokens, NOTHING_ATTACHED, slice(None)),
        )
        for way in (nf4.quantised, restored)
    )
    assert len(names) >= 2 * 4
    assert torch.allclose(packed, floats, atol=1e-9)
    assert not torch.allclose(packed, both.logits().unsqueeze(0), atol=1e-3)


def test_the_base_takes_the_bytes_that_the_plan_counts(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    a_qwen3_folder(folder)
    spec = resolved(folder)
    plan = make_plan(a_job(spec, "float32"), "cpu")
    base = BaseWeights((), placed(spec, folder)).read(plan, (0, 0), torch.float32)
    counted = base_bytes(plan.shape, 4, is_quantised=True)
    assert sum(t.numel() * t.element_size() for t in base.values()) == counted
    assert "blocks.0.attn.q.weight" not in base
    assert counted < base_bytes(plan.shape, 4, is_quantised=False) / 2
    short = BaseWeights((), placed(spec, folder), counted - 1)
    with pytest.raises(OutOfMemory, match=f"need {counted:,} bytes in float32, in part nf4"):
        short.read(plan, (0, 0), torch.float32)


def test_a_cpu_refuses_four_bits_before_anything_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    a_qwen3_folder(folder)
    spec, observer = resolved(folder), Remembering()
    with pytest.raises(InvalidSpec, match="nf4 are not available on a CPU") as refused:
        run(a_job(spec), (), tmp_path, observer, "cpu", folder=placed(spec, folder))
    assert [each.pointer for each in refused.value.problems] == ["/training/base_weights"]
    assert observer.of(Started) == []
