"""LoRA on a GPT-2-shaped model, by our engine and by peft.

The engine runs our decoder, and the library's.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from adaptlab.engine.items.digits import target_rows
from adaptlab.engine.items.task_items import items_of_steps
from adaptlab.engine.kernels.allocator import keep_freed_memory
from adaptlab.engine.kernels.compiled import compile_kernels
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.families.gpt2 import GPT2
from adaptlab.families.transformers import Transformers
from adaptlab.plugins.family import Family
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import AdaptSpec, Precision
from adaptlab.tasks.sort_ascending import SortAscending
from bench.figures import Figure, Section
from bench.plain_loop import STEPS
from bench.stepping import ROUNDS, row, stepper

if TYPE_CHECKING:
    from transformers import GPT2Config

TITLE = "LoRA on a published architecture"
SEEDS, RATES, BATCH, RANK = 3, 8, 8, 4
TASK = SortAscending(name="sort_ascending", length=32)  # sequences of 63 tokens
MODEL = GPT2(layers=6, heads=6, width=384).resolved(vocabulary=100, context=64)
SITES = ("o", "mlp")  # three matrices a layer, which `peft` finds under the name c_proj and c_fc


def measure() -> Section:
    """Return both rows, and the memory of 24 replicates."""
    compile_kernels()  # as a worker's trainer does; where there is no compiler torch computes all
    keep_freed_memory()  # as a worker's trainer does; `peft` in this process gains as well
    theirs, rounded = peft_step(), peft_step(torch.bfloat16)
    many, one, low = (
        stacked_step(SEEDS, RATES),
        stacked_step(1, 1),
        stacked_step(SEEDS, RATES, "bfloat16"),
    )
    library = library_family()
    many_there, one_there = (
        stacked_step(s, r, family=library) for s, r in ((SEEDS, RATES), (1, 1))
    )
    return Section(
        TITLE,
        f"GPT-2 of 6 layers and width 384, random weights, sequences of {TASK.sequence_length()}, "
        f"batch {BATCH}, LoRA rank {RANK} on three matrices per layer, float32 unless stated; "
        f"milliseconds per replicate and step, medians of {ROUNDS} alternating rounds.",
        (
            row("8 rates × 3 seeds in one pass", many, SEEDS * RATES, theirs, "2.5 times"),
            row(
                "8 rates × 3 seeds in one pass, both in bfloat16",
                low,
                SEEDS * RATES,
                rounded,
                "2.5 times",
            ),
            row("one replicate", one, 1, theirs, "not slower"),
            row(
                "8 rates × 3 seeds in one pass, by the family `transformers`",
                many_there,
                SEEDS * RATES,
                theirs,
                "1.3 times",
            ),
            row("one replicate, by the family `transformers`", one_there, 1, theirs, "0.95 times"),
            row(
                "8 rates × 3 seeds, our decoder against the family `transformers`",
                many,
                SEEDS * RATES,
                many_there,
                "",
                "the family `transformers`",
                SEEDS * RATES,
            ),
            row(
                "one replicate, our decoder against the family `transformers`",
                one,
                1,
                one_there,
                "",
                "the family `transformers`",
            ),
            _memory(),
        ),
    )


def library_family() -> Transformers:
    """Return the same model in the family `transformers`."""
    from transformers import GPT2LMHeadModel

    with torch.device("meta"):
        model = GPT2LMHeadModel(_gpt2_config())
    shapes = {name: tuple(tensor.shape) for name, tensor in model.named_parameters()}
    return Transformers.from_published(
        "GPT2LMHeadModel", json.loads(model.config.to_json_string(use_diff=False)), shapes
    )


def _gpt2_config() -> "GPT2Config":
    from transformers import GPT2Config

    return GPT2Config(
        vocab_size=100, n_positions=64, n_embd=384, n_layer=6, n_head=6,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip


def lora_plan(
    seeds: int,
    rates: int,
    precision: Precision,
    family: Family,
    device: str,
    task: SortAscending = TASK,
) -> Plan:
    """Return the plan of LoRA on a model, for every seed and rate."""
    spec = AdaptSpec.model_validate(
        {
            "base_model": "bench",
            "task": task.model_dump(),
            "method": {"name": "lora", "rank": RANK, "sites": SITES},
            "tuning": {"trials": rates},
            "seeds": seeds,
            "training": {"steps": 100_000, "batch_size": BATCH, "precision": precision},
        }
    )
    facts = BaseModelFacts(
        name="bench",
        digest="0",
        family=family,
        task=task,
        replicates=1,
    )
    return make_plan(resolve(spec, facts), device)


def stacked_step(
    seeds: int,
    rates: int,
    precision: Precision = "float32",
    family: Family = MODEL,
    device: str = "cpu",
) -> Callable[[], None]:
    """Return a function that takes one step of all replicates with our engine."""
    plan = lora_plan(seeds, rates, precision, family, device)
    base = {
        name: torch.randn(1, *t.shape, device=device) * 0.02
        for name, t in plan.shape.tensors.items()
    }
    return stepper(plan, base)


def peft_step(dtype: torch.dtype = torch.float32, device: str = "cpu") -> Callable[[], None]:
    """Return a function that takes one step of one model.

    It uses `transformers` and `peft`.
    """
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2LMHeadModel

    targets = ["attn.c_proj", "mlp.c_fc", "mlp.c_proj"]
    lora = LoraConfig(r=RANK, target_modules=targets, lora_dropout=0.0, fan_in_fan_out=True)
    # In bfloat16 the frozen weights are kept in it and the adapters, as `peft` does, in float32.
    gpt2 = GPT2LMHeadModel(_gpt2_config())
    for parameter in gpt2.parameters():
        parameter.data = parameter.data.to(dtype)
    model = get_peft_model(gpt2, lora).to(device)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, 1e-3)
    seed = torch.zeros(1, dtype=torch.int64, device=device)
    each_step = items_of_steps(TASK, seed, BATCH, STEPS)

    def step() -> None:
        items = next(each_step)
        with torch.autocast(device, torch.bfloat16, enabled=dtype == torch.bfloat16):
            logits = model(input_ids=items.tokens[0]).logits[:, target_rows(TASK)]
        flat = logits.float().flatten(0, 1)
        loss = functional.cross_entropy(flat, items.targets[0].flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()

    return step


def _memory() -> Figure:
    """Return the process's growth when it trains 1 and 24 replicates."""
    one, many = (_added_megabytes(s, r) for s, r in ((1, 1), (SEEDS, RATES)))
    base = MODEL.shape().parameters * 4 / 2**20
    return Figure(
        "memory of 24 replicates on a shared base",
        f"one replicate: {one:,.0f} MB, of which the base is {base:,.0f} MB",
        f"{many:,.0f} MB: {many / one:.1f} ×",
        "base once, plus adapters and activations",
    )


def _added_megabytes(seeds: int, rates: int) -> float:
    """Return the peak of a separate process over what it held before."""
    command = [sys.executable, "-m", "bench.published", str(seeds), str(rates)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(run.stdout)


def _peak_megabytes() -> float:
    # Not getrusage: its maximum counts what the parent held when this process was forked.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10


if __name__ == "__main__":
    warmed = torch.ones(64, 64) @ torch.ones(64, 64)
    compile_kernels()
    keep_freed_memory()
    held = _peak_megabytes()
    train = stacked_step(int(sys.argv[1]), int(sys.argv[2]))
    train()
    train()
    print(_peak_megabytes() - held)
