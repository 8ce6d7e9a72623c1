"""Parts of `small` presets, which two cores finish in hours."""

from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024.settings import Members

SEEDS = 5
WIDTH = 64
PADS = 4
DIGITS: Members = {"length": 6, "alphabet": 5}
RANK = 4
"""Rank of LoRA on the MLP; per rank it has as many parameters as ten rows of a prefix."""
ROWS = 10 * RANK
SCALES = [0.02, 1.0]
STEPS = 8000
STAND_IN = "a two-layer decoder of width 64 trained here"
NOTE = (
    "Sizes that two cores finish in hours: width 64, questions of six digits below five, 4 "
    "pads, 5 seeds. Every method trains at a constant rate until the validation loss has not "
    "improved for 2,400 steps, and for at most 8,000 steps. Prefixes try 4 rates from 0.003 to 1, "
    "each from initial scales of 0.02 and 1; other methods try 4 rates. "
)


def task(task: Members) -> Members:
    """Return the task with the questions of small presets."""
    return {**task, **DIGITS}


def tasks(several: tuple[Members, ...]) -> tuple[Members, ...]:
    """Return the tasks with the questions of small presets."""
    return tuple(task(one) for one in several)


def base(layers: int, *, norm: bool = True) -> Members:
    """Return the model with four skills, in five seeds."""
    sizes: Members = {"layers": layers, "heads": 4, "width": WIDTH, "pad_positions": PADS}
    return paper.base(
        f"petrov2024-skills-{layers}l{'' if norm else '-no-norm'}-small",
        sizes if norm else {**sizes, "attention_norm": False},
        {"name": "mixture", "tasks": tasks(paper.SKILLS)},
        paper.quick_steps(3000, learning_rate=3e-3),
        seeds=SEEDS,
        scored=tasks(paper.TASKS),
        samples=1000,
    )


def training(steps: int = STEPS) -> Members:
    """Return training at a constant rate with early stopping.

    It ends after 6 of 20 validations without progress.
    """
    return {
        "steps": steps,
        "batch_size": 32,
        "schedule": "constant",
        "warmup_fraction": 0.0,
        "validations": 20,
        "early_stopping": {"patience": 6, "min_delta": 0.005},
    }


def prefix(rows: int, *, label: str, **given: object) -> Members:
    """Return a prefix with 4 rates up to 1 and two initial scales."""
    tuning: Members = {"learning_rates": [3e-3, 0.02, 0.15, 1.0], "initial_scales": SCALES}
    return paper.method(label, "prefix_tuning", length=rows, tuning=tuning, **given)


def lora(label: str, rank: int, sites: tuple[str, ...], **given: object) -> Members:
    """Return LoRA at 4 rates."""
    tuning: Members = {"learning_rates": [1e-3, 4e-3, 1.6e-2, 6.4e-2]}
    return paper.method(label, "lora", rank=rank, sites=sites, tuning=tuning, **given)


def full(**given: object) -> Members:
    """Return full fine-tuning at 4 rates."""
    return paper.full(tuning={"learning_rates": [2e-4, 6e-4, 2e-3, 6e-3]}, **given)


RESOURCES: Members = {"max_seconds": 12 * 3600}
"""Time for the longest job on two busy cores."""
