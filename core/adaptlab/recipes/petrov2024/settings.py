"""Shared parts of this paper's recipes."""

from collections.abc import Iterable

from adaptlab.recipes.studies import SEEDS, Members, base, method

SOURCE = "Petrov, Torr, Bibi (ICLR 2024)"
VERSIONS = {"arxiv_v1": "arXiv v1", "iclr": "ICLR"}
"""The first version and the published one, which words some claims less strongly."""
NO_SUCH_RUN = "The paper has no such run, so this preset is the same as fair. For a GPU."
"""The note on a faithful preset without settings to follow."""
PREFIX, LONGER = "prefix-tuning", "prefix-tuning, trained longer"
SMALL_START, STARTS = "prefix-tuning from 0.02", "prefix-tuning, 3 initial scales"
FULL, SCRATCH = "full fine-tuning", "from scratch"
PINNED = "fine-tuning, first attention pinned"
LORA, MLP_LORA = "LoRA", "LoRA on the MLP alone"
FIRST_CUE, NEW_CUE = 12, 16
"""Tokens before questions: of the four skills from 12 on, and of a task that is new."""
RATES = 8
PREFIX_RANGE = [5e-5, 0.5]
"""From the paper's rate to 10,000 times as much, which replaces a row of deviation 1."""
WIDE: Members = {"learning_rate_range": PREFIX_RANGE}
INITIAL_SCALES = [0.02, 0.2, 1.0]

UP: Members = {"name": "sort_ascending"}
DOWN: Members = {"name": "sort_descending"}
ADD_1: Members = {"name": "add", "k": 1}
ADD_2: Members = {"name": "add", "k": 2}
UP_ADD_1: Members = {"name": "sort_then_add", "k": 1}
HISTOGRAM: Members = {"name": "double_histogram"}
SORTS = (UP, DOWN)
SKILLS = (*SORTS, ADD_1, ADD_2)
NEW = (UP_ADD_1, HISTOGRAM)
MIXTURE: Members = {"name": "mixture", "tasks": SKILLS}
CONSTANT: Members = {"batch_size": 64, "schedule": "constant", "warmup_fraction": 0.0}
"""The paper's training: AdamW at one constant rate, 64 items per step, no warm-up."""
PATTERNS: Members = {"attention": {"samples": 4}}
"""Four items per job whose attention is stored."""
QUICK_STAND_IN = "a four-layer decoder of width 64 trained here"
GPU: Members = {"queue": "gpu", "max_seconds": 24 * 3600}
"""Resources for the paper's sizes and steps; users without a GPU can override them."""
QUICK_FULL: Members = {
    "training": {"steps": 1600},
    "tuning": {"trials": 2, "learning_rates": [5e-4, 1e-3]},
}
"""Full fine-tuning on new tasks in quick presets; it fails on the histogram at higher rates."""
QUICK_DIGITS: Members = {"length": 8, "alphabet": 6}
"""Questions for the quick four-layer model; the paper's have ten digits below eight."""
QUICK_RATES = 4
QUICK_RANGE: Members = {"learning_rate_range": [3e-3, 1.0]}
"""Rates of prefixes in quick presets, where lower ones would hardly change them."""
ORDERS = ("ascending", "descending")
SKILL_LABELS = (*ORDERS, "+1", "+2")
NEW_LABELS = ("ascending, +1", "histogram")
TASKS, TASK_LABELS = (*SKILLS, *NEW), (*SKILL_LABELS, *NEW_LABELS)


def shorter(tasks: Iterable[Members]) -> tuple[Members, ...]:
    """Return the tasks with the questions of quick presets."""
    return tuple({**task, **QUICK_DIGITS} for task in tasks)


def cued(task: Members, cue: int) -> Members:
    """Return the task with a cue before its questions."""
    return {"name": "cued", "task": task, "cue": cue}


def cued_skills(skills: Iterable[Members] = SKILLS) -> Members:
    """Return the mixture of the skills, each with a cue of its own."""
    tasks = tuple(cued(task, cue) for cue, task in enumerate(skills, start=FIRST_CUE))
    return {"name": "mixture", "tasks": tasks}


def with_cues(base: Members, task: Members, scored: Iterable[Members]) -> Members:
    """Return the base model, pretrained on a cued task instead."""
    evaluation = {"samples": 1000, "tasks": tuple(scored)}
    return {**base, "name": f"{base['name']}-cued", "task": task, "evaluation": evaluation}


def constant(steps: int, rate: float, decay: float = 0.1) -> Members:
    """Return the paper's training at one constant rate, with its weight decay."""
    return {**CONSTANT, "steps": steps, "learning_rate": rate, "weight_decay": decay}


def quick_steps(steps: int, **given: object) -> Members:
    """Return training of quick presets: 32 items per step."""
    return {"steps": steps, "batch_size": 32, "validations": 5, **given}


def equal_steps(steps: int) -> Members:
    """Return training of fair presets: equal steps for every method."""
    return {"steps": steps, "batch_size": 64}


def rates(trials: int, **given: object) -> Members:
    """Return tuning by learning rate, selected on 1,280 held-out items."""
    return {"trials": trials, "validation_samples": 1280, **given}


def one_rate(training: Members) -> Members:
    """Return the members of a method that is trained at a single rate."""
    return {"training": training, "tuning": {"trials": 1}}


def skills_base(
    *, pads: int = 10, layers: int = 4, seeds: int = SEEDS, norm: bool = True
) -> Members:
    """Return the paper's model, pretrained on four tasks without a cue.

    It has four heads and width 256. A name identifies one model: recipes with the same `pads` and
    `layers` share it.
    """
    name = f"petrov2024-skills-{layers}l-{pads}-pads{'' if norm else '-no-norm'}"
    return base(
        name,
        {**_four_heads(256, layers, pads, norm), "dropout": 0.1},
        MIXTURE,
        constant(40_000, 5e-4),
        seeds=seeds,
        scored=TASKS,
        resources=GPU,
    )


def quick_skills_base(*, layers: int = 4, norm: bool = True) -> Members:
    """Return the same at width 64, for shorter questions."""
    return base(
        f"petrov2024-skills-{layers}l{'' if norm else '-no-norm'}-quick",
        _four_heads(64, layers, 10, norm),
        {"name": "mixture", "tasks": shorter(SKILLS)},
        _quick_training(layers),
        seeds=SEEDS,
        scored=shorter(TASKS),
        samples=1000,
    )


def _quick_training(layers: int) -> Members:
    """Return the training; one layer needs more steps at a higher rate."""
    deep = layers > 1
    steps, rate = (2000, 3e-3) if deep else (3000, 6e-3)
    return quick_steps(steps, learning_rate=rate)


def _four_heads(width: int, layers: int, pads: int, norm: bool) -> Members:
    sizes: Members = {"layers": layers, "heads": 4, "width": width, "pad_positions": pads}
    return sizes if norm else {**sizes, "attention_norm": False}


def prefix(length: int, *, label: str = PREFIX, start: float = 1.0, **given: object) -> Members:
    """Return a prefix for every layer, drawn at deviation `start`."""
    return method(label, "prefix_tuning", length=length, initial_scale=start, **given)


def other_starts(length: int, tuning: Members = WIDE) -> tuple[Members, ...]:
    """Return the prefix started at 0.02, and at the best of three scales."""
    scales = {**tuning, "trials": 3 * RATES, "initial_scales": INITIAL_SCALES}
    return (
        prefix(length, label=SMALL_START, start=0.02, tuning=tuning),
        prefix(length, label=STARTS, tuning=scales),
    )


def mlp_lora(rank: int = 1, *, label: str = MLP_LORA, **given: object) -> Members:
    """Return LoRA on every MLP; rank 1 is as large as ten prefix rows."""
    return method(label, "lora", rank=rank, sites=("mlp",), **given)


def paper_lora() -> Members:
    """Return rank-1 LoRA at the published sites: MLP and attention output."""
    return method(LORA, "lora", rank=1, sites=("mlp", "attn.o"))


def full(**given: object) -> Members:
    """Return full fine-tuning, which shows what can be learned."""
    return method(FULL, "full_finetuning", **given)


def pinned(**given: object) -> Members:
    """Return fine-tuning of all but the first layer's attention pattern."""
    return method(PINNED, "pinned_finetuning", **given)


def scratch(**given: object) -> Members:
    """Return the same model trained on the new task alone."""
    return method(SCRATCH, "from_scratch", **given)


def within(entries: Iterable[Members], **given: object) -> tuple[Members, ...]:
    """Return the methods limited to certain tasks or base models."""
    return tuple({**entry, **given} for entry in entries)
