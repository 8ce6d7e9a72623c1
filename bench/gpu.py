"""The engine on a GPU, against plain models in turn.

The engine takes replicates in one pass.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch

from adaptlab.engine.step_graph import use_graphs
from bench import published
from bench.engine import (
    DTYPES,
    FOUR,
    ONE,
    ROUNDS,
    Contest,
    in_each_precision,
    prefixes,
    pretraining,
)
from bench.figures import Figure, Section
from bench.peak import peak
from bench.published import RATES, SEEDS, library_family, peft_step, row, stacked_step

TITLE = "The engine on a GPU"
TARGET = "50 times"
SIZE = 8192
"""Of the matrices whose product gives the peak."""


def measure() -> Section:
    """Return every row, or none where torch finds no GPU."""
    if not torch.cuda.is_available():
        return Section(TITLE, "torch finds no CUDA device here: nothing was measured.", ())
    use_graphs()  # as a worker's trainer does
    peaks = {name: peak(dtype, "cuda", SIZE) for name, dtype in DTYPES.items()}
    card = torch.cuda.get_device_name()
    return Section(
        TITLE,
        f"{card}. Milliseconds per replicate and step, medians of {ROUNDS} alternating rounds; "
        "both sides on the card. Pretraining and prefixes sort ten digits, batch 64, against "
        "`bench/plain_loop.py`, in bfloat16 under `torch.autocast`; LoRA is that of the section "
        f"“{published.TITLE}”. Shares are those of the matrix-product peak at {SIZE:,} × {SIZE:,}: "
        + ", ".join(f"{rate / 1e12:,.0f} TFLOP/s in {name}" for name, rate in peaks.items())
        + ". float32 products are not rounded to TF32.",
        (
            *in_each_precision(peaks, lambda name: _aimed(pretraining(ONE, name, "cuda"))),
            *in_each_precision(peaks, lambda name: _aimed(prefixes(name, "cuda"))),
            *in_each_precision(peaks, lambda name: _aimed(pretraining(FOUR, name, "cuda"))),
            *_lora(),
        ),
    )


def _aimed(contest: Contest) -> Contest:
    return replace(contest, target=TARGET)


def _lora() -> Iterator[Figure]:
    theirs, rounded = peft_step(device="cuda"), peft_step(torch.bfloat16, "cuda")
    library, many = library_family(), f"{RATES} rates × {SEEDS} seeds of LoRA in one pass"
    everyone = SEEDS * RATES
    yield row(many, stacked_step(SEEDS, RATES, device="cuda"), everyone, theirs, "")
    low = stacked_step(SEEDS, RATES, "bfloat16", device="cuda")
    yield row(f"{many}, both in bfloat16", low, everyone, rounded, "")
    there = stacked_step(SEEDS, RATES, family=library, device="cuda")
    yield row(f"{many}, by the family `transformers`", there, everyone, theirs, "1.3 times")
    yield row("one replicate of LoRA", stacked_step(1, 1, device="cuda"), 1, theirs, "")
    alone = stacked_step(1, 1, family=library, device="cuda")
    yield row("one replicate of LoRA, by the family `transformers`", alone, 1, theirs, "")
