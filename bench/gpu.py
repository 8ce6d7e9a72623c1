"""The engine on a GPU, against plain models in turn.

The engine takes replicates in one pass.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from adaptlab.engine.kernels.rounding import rounded_products
from adaptlab.engine.training.step_graph import use_graphs
from adaptlab.families.transformers import Transformers
from adaptlab.specs.spec import Precision
from adaptlab.tasks.sort_ascending import SortAscending
from bench import published
from bench.engine import (
    DTYPES,
    FOUR,
    ONE,
    Contest,
    compared,
    in_each_precision,
    prefixes,
    pretraining,
)
from bench.figures import Figure, Section, alternating, spread
from bench.peak import peak
from bench.published import (
    BATCH,
    RATES,
    SEEDS,
    library_family,
    lora_plan,
    peft_step,
    stacked_step,
)
from bench.stepping import ROUNDS, milliseconds, row, stepper

TITLE = "The engine on a GPU"
TARGET = "50 times"
SIZE = 8192
"""Of the matrices whose product gives the peak."""
DIGITS = 128
"""Of the items on which gradient checkpointing is measured."""


def measure() -> Section:
    """Return every row, or none where torch finds no GPU."""
    if not torch.cuda.is_available():
        return Section(TITLE, "torch finds no CUDA device here: nothing was measured.", ())
    use_graphs()  # as a worker's trainer does
    peaks = {name: peak(dtype, "cuda", SIZE) for name, dtype in DTYPES.items()}
    with rounded_products(rounded=True):
        peaks["tf32"] = peak(torch.float32, "cuda", SIZE)
    card = torch.cuda.get_device_name()
    return Section(
        TITLE,
        f"{card}. Milliseconds per replicate and step, medians of {ROUNDS} alternating rounds; "
        "both sides on the card. Pretraining and prefixes sort ten digits, batch 64, against "
        "`bench/plain_loop.py`, in bfloat16 under `torch.autocast`; LoRA is that of the section "
        f"“{published.TITLE}”. Shares are those of the matrix-product peak at {SIZE:,} × {SIZE:,}: "
        + ", ".join(f"{rate / 1e12:,.0f} TFLOP/s in {name}" for name, rate in peaks.items())
        + ". float32 products are not rounded to TF32, which the precision tf32 does.",
        (
            *_in_each_precision(peaks, lambda name: pretraining(ONE, name, "cuda")),
            *_in_each_precision(peaks, lambda name: prefixes(name, "cuda")),
            *_in_each_precision(peaks, lambda name: pretraining(FOUR, name, "cuda")),
            *_lora(),
            *_checkpointing(),
        ),
    )


def _in_each_precision(
    peaks: dict[str, float], contest: Callable[[Precision], Contest]
) -> Iterator[Figure]:
    yield from in_each_precision(peaks, lambda name: _aimed(contest(name)))
    yield compared(_aimed(contest("tf32")), "tf32", autocast=False, fastest=peaks["tf32"])


def _aimed(contest: Contest) -> Contest:
    return replace(contest, target=TARGET)


def _lora() -> Iterator[Figure]:
    theirs, rounded = peft_step(device="cuda"), peft_step(torch.bfloat16, "cuda")
    library, many = library_family(), f"{RATES} rates × {SEEDS} seeds of LoRA in one pass"
    everyone = SEEDS * RATES
    yield row(many, stacked_step(SEEDS, RATES, device="cuda"), everyone, theirs, "")
    low = stacked_step(SEEDS, RATES, "bfloat16", device="cuda")
    yield row(f"{many}, both in bfloat16", low, everyone, rounded, "")
    rounding = stacked_step(SEEDS, RATES, "tf32", device="cuda")
    yield row(f"{many}, ours in tf32", rounding, everyone, theirs, "")
    there = stacked_step(SEEDS, RATES, family=library, device="cuda")
    yield row(f"{many}, by the family `transformers`", there, everyone, theirs, "1.3 times")
    yield row("one replicate of LoRA", stacked_step(1, 1, device="cuda"), 1, theirs, "")
    alone = stacked_step(1, 1, family=library, device="cuda")
    yield row("one replicate of LoRA, by the family `transformers`", alone, 1, theirs, "")


def _checkpointing() -> Iterator[Figure]:
    """Compare steps with and without gradient checkpointing.

    The model has the sizes of SmolLM2-135M.
    """
    task = SortAscending(name="sort_ascending", length=DIGITS)
    for seeds in (1, 4):
        plan = lora_plan(seeds, 1, "float32", smollm2(), "cuda", task=task)
        base = {
            name: torch.randn(1, *shape.shape, device="cuda") * 0.02
            for name, shape in plan.shape.tensors.items()
        }
        steps = [stepper(plan, base, recomputes=again) for again in (True, False)]
        held = [_peak_megabytes(step) for step in steps]
        first, second = steps
        times = alternating(
            lambda first=first: milliseconds(first, 3),
            lambda second=second: milliseconds(second, 3),
            ROUNDS,
        )
        again, whole = (
            f"{spread(time, 'ms')} a step, {peak_of:,.0f} MB"
            for time, peak_of in zip(times, held, strict=True)
        )
        yield Figure(
            f"gradient checkpointing: {seeds} × LoRA on a Llama of 30 layers and width 576, batch "
            f"{BATCH}, {task.sequence_length()} tokens, float32",
            f"without: {whole}",
            f"with: {again}",
            "",
        )


def _peak_megabytes(step: Callable[[], None]) -> float:
    """Return the most that three steps allocate beyond what is allocated now."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def smollm2() -> Transformers:
    """Return the family of a Llama with the sizes of SmolLM2-135M."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
        num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192,
        rope_parameters={"rope_theta": 100000.0, "rope_type": "default"}, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.named_parameters()}
    return Transformers.from_published(
        "LlamaForCausalLM", json.loads(config.to_json_string(use_diff=False)), shapes
    )
