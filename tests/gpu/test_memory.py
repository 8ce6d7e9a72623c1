"""The memory of a GPU: measured, and divided when it is small."""

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.making import Remembering, adaptation, base_tensors, items, trainables
from tests.engine.running import run
from tests.engine.tiny import pretraining
from tests.gpu.both import CLOSE, CUDA, furthest, on_gpu, trained, warm_up
from transformers import LlamaConfig, LlamaForCausalLM

from adaptlab.engine.kernels.memory import all_bytes, forget_peak, held_bytes, peak_bytes
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.training.chunks import BUFFERS
from adaptlab.engine.training.passes import passes
from adaptlab.engine.training.step_graph import use_graphs
from adaptlab.families.minigpt import MiniGPT
from adaptlab.families.transformers import Transformers
from adaptlab.runs.events import Finished, Started
from adaptlab.specs.resolve import resolve

pytestmark = pytest.mark.gpu

WIDE = MiniGPT(layers=2, heads=2, width=256)
MEGABYTE = 2**20


def wide(trials: int, batch: int = 64) -> Plan:
    return on_gpu(
        adaptation(
            {"name": "lora", "rank": 2},
            family=WIDE,
            tuning={"trials": trials, "validation_samples": 4},
            training={
                "precision": "float64",
                "steps": 2,
                "batch_size": batch,
                "validations": 1,
            },
        )
    )


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Leave the process 160 MiB of the card.

    What other tests still hold is not counted.
    """
    warm_up()
    gc.collect()
    torch.cuda.empty_cache()
    most = torch.cuda.memory_reserved() + 160 * MEGABYTE
    torch.cuda.set_per_process_memory_fraction(most / all_bytes(CUDA))
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


def test_a_run_says_where_it_ran_and_what_the_allocator_held(tmp_path: Path):
    warm_up()
    before, observer = held_bytes(CUDA), Remembering()
    run(resolve(pretraining(), None), (), tmp_path, observer, "auto", clock=lambda: 0.0)
    (started,), (finished,) = observer.of(Started), observer.of(Finished)
    assert started.environment.device == "cuda"
    assert not started.environment.compiled
    assert finished.usage.peak_memory_bytes > finished.usage.base_memory_bytes
    assert finished.usage.peak_memory_bytes < before + 100 * MEGABYTE


@pytest.mark.parametrize("graphs", [False, True], ids=["plain", "graphs"])
def test_replicates_that_do_not_fit_together_train_in_passes(
    little_memory: None, tmp_path: Path, graphs: bool
):
    use_graphs(use=graphs)
    plan = wide(trials=8)
    parted, training = trained(plan, tmp_path, memory_bytes=2**40)
    assert training.division.passes > 1
    assert training.division.parts == 1, "passes share the memory of their recordings"
    torch.cuda.set_per_process_memory_fraction(1.0)
    whole, at_once = trained(plan, tmp_path)
    assert at_once.division.passes == 1
    assert furthest(parted, whole) < CLOSE


def test_a_batch_that_does_not_fit_trains_in_parts(little_memory: None, tmp_path: Path):
    plan = wide(trials=1, batch=2048)
    parted, _ = trained(plan, tmp_path, memory_bytes=2**40)
    torch.cuda.set_per_process_memory_fraction(1.0)
    whole, _ = trained(plan, tmp_path)
    assert furthest(parted, whole) < CLOSE


@pytest.mark.parametrize("graphs", [False, True], ids=["plain", "graphs"])
def test_a_step_holds_weights_moments_and_one_gradient(graphs: bool, tmp_path: Path):
    use_graphs(use=graphs)
    plan = on_gpu(
        adaptation(
            "full_finetuning",
            family=MiniGPT(layers=2, heads=2, width=768),
            tuning={"trials": 2, "validation_samples": 4},
            training={"steps": 4, "batch_size": 1, "validations": 0},
        )
    )
    warm_up()
    forget_peak(CUDA)
    before = held_bytes(CUDA)
    flat, _ = trained(plan, tmp_path)
    buffers = (peak_bytes(CUDA) - before) / (flat.numel() * flat.element_size())
    shared = 2 / plan.replicates  # the base, and where weights decay
    assert BUFFERS - 1 < buffers - shared < BUFFERS + 0.5


@pytest.mark.parametrize("method", ["full_finetuning", "lora"])
def test_blocks_that_are_computed_again_hold_less(method: str):
    shapes = {"hidden_size": 256, "num_hidden_layers": 24}
    family = Transformers.from_published(*llama(**shapes))
    plan = on_gpu(
        adaptation(
            method if method == "full_finetuning" else {"name": method, "rank": 2},
            family=family,
            tuning={"trials": 1, "validation_samples": 4},
            training={"precision": "float64", "steps": 2, "batch_size": 256, "validations": 0},
        )
    )
    base = {name: tensor.to(CUDA) for name, tensor in base_tensors(plan).items()}
    owned = trainables(plan, base)
    ((one,),) = passes(plan, base, range(1), owned.flat, owned.decays, 1)
    batch = items(plan, 256)
    peaks: list[int] = []
    found: list[torch.Tensor] = []
    for part in (one, one.recomputing()):
        part.gradient(batch, 0, 1)
        forget_peak(CUDA)
        before = held_bytes(CUDA)
        gradient, _ = part.gradient(batch, 1, 1)
        peaks.append(peak_bytes(CUDA) - before)
        found.append(gradient.flat.cpu())
    assert furthest(*found) < CLOSE * float(found[0].abs().max())
    assert peaks[1] < 0.75 * peaks[0]


def llama(**sizes: Any) -> tuple[str, dict[str, Any], dict[str, tuple[int, ...]]]:
    """The architecture of a small Llama, its configuration and its shapes."""
    config = LlamaConfig(
        vocab_size=8, num_attention_heads=4, num_key_value_heads=2, intermediate_size=512,
        max_position_embeddings=16, tie_word_embeddings=True, **sizes,
    )  # fmt: skip
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.named_parameters()}
    return "LlamaForCausalLM", json.loads(config.to_json_string(use_diff=False)), shapes


def test_runs_leave_no_memory_behind(tmp_path: Path):
    use_graphs()
    held: list[int] = []
    for number in range(4):
        folder = tmp_path / str(number)
        folder.mkdir()
        run(resolve(pretraining(), None), (), folder, Remembering(), "cuda")
        gc.collect()
        torch.cuda.empty_cache()  # waits for memory that another stream may still read
        held.append(torch.cuda.memory_allocated())
    assert held[1] == held[2] == held[3]
