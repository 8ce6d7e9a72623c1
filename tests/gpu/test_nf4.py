"""Base weights in four bits, on a GPU."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.engine.four_bits import a_job, restored
from tests.engine.imported import placed, resolved
from tests.engine.making import Remembering
from tests.engine.published import llama, randomised
from tests.engine.running import run
from tests.folders import a_qwen3_folder
from tests.gpu.both import CLOSE, CUDA, furthest

from adaptlab.engine.models import nf4
from adaptlab.engine.models.nf4 import Packed
from adaptlab.engine.training.step_graph import use_graphs
from adaptlab.runs.events import CheckpointWritten, Evaluated
from adaptlab.specs.resolved import ResolvedImport

pytestmark = pytest.mark.gpu


def test_a_matrix_and_its_product_are_those_of_the_cpu():
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(300, 256, generator=generator)
    here, there = Packed.of(weight), Packed.of(weight.to(CUDA))
    restored = there.restored(torch.float64)
    # A number halfway between two levels may be rounded either way.
    assert (here.codes == there.codes.cpu()).float().mean() > 0.999
    x = torch.randn(1, 5, 256, dtype=torch.float64, generator=generator).to(CUDA)
    x.requires_grad_()
    product = nf4.linear(x, there)
    product.sum().backward()
    assert x.grad is not None
    assert torch.allclose(product, x @ restored.mT, atol=CLOSE)
    assert torch.allclose(x.grad, restored.sum(0).expand_as(x), atol=CLOSE)


@pytest.mark.parametrize("family", ["llama", "transformers"])
def test_an_adaptation_of_four_bits_is_that_of_the_restored_floats(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Training in recorded steps and scores are the same."""
    folder = tmp_path / "model"
    if family == "llama":
        randomised(llama, double=False).save_pretrained(folder)
    else:
        a_qwen3_folder(folder)
    spec = resolved(folder)
    use_graphs()
    packed = trained(spec, folder, tmp_path / "packed")
    monkeypatch.setattr(nf4, "quantised", restored)
    floats = trained(spec, folder, tmp_path / "floats")
    written = [
        [load_file(each.path) for each in observer.of(CheckpointWritten)]
        for observer in (packed, floats)
    ]
    for ours, theirs in zip(*written, strict=True):
        assert ours.keys() == theirs.keys()
        assert all(furthest(tensor, theirs[name]) < 1e-7 for name, tensor in ours.items())
    scores = [[e.evaluation.outcomes for e in each.of(Evaluated)] for each in (packed, floats)]
    assert scores[0] == scores[1] != []


def trained(spec: ResolvedImport, folder: Path, scratch: Path) -> Remembering:
    """An adaptation by LoRA whose base weights are in four bits."""
    observer = Remembering()
    scratch.mkdir()
    run(a_job(spec, steps=12), (), scratch, observer, "cuda", folder=placed(spec, folder))
    return observer
