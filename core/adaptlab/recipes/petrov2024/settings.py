"""What the recipes of this paper have in common: words, tasks, schedules and parts of studies."""

from collections.abc import Iterable, Sequence

from adaptlab.claim import (
    AllOf,
    CheckHolds,
    Claim,
    PlainTest,
    RowSelector,
    ScoreAbove,
    ScoreAtLeast,
    ScoreAtMost,
    Wording,
)
from adaptlab.recipe import PublishedScore, TableColumn, TableRow, score
from adaptlab.spec import Choice
from adaptlab.study import StudySpec

Members = dict[str, object]

SOURCE = "Petrov, Torr, Bibi (ICLR 2024)"
PREFIX, LONGER = "prefix-tuning", "prefix-tuning, trained longer"
SMALL_START, STARTS = "prefix-tuning from 0.02", "prefix-tuning, 3 initial scales"
FULL, SCRATCH = "full fine-tuning", "from scratch"
LORA, MLP_LORA = "LoRA", "LoRA on the MLP alone"
RATES = 8
PREFIX_RANGE = [5e-5, 0.5]
"""From the paper's own rate to 10,000 times as much, at which a row of deviation 1 is made anew."""
INITIAL_SCALES = [0.02, 0.2, 1.0]

UP: Members = {"name": "sort_ascending"}
DOWN: Members = {"name": "sort_descending"}
ADD_1: Members = {"name": "add", "k": 1}
ADD_2: Members = {"name": "add", "k": 2}
UP_ADD_1: Members = {"name": "sort_then_add", "k": 1}
HISTOGRAM: Members = {"name": "double_histogram"}
SKILLS = (UP, DOWN, ADD_1, ADD_2)
NEW = (UP_ADD_1, HISTOGRAM)
MIXTURE: Members = {"name": "mixture", "tasks": SKILLS}
GPU: Members = {"queue": "gpu", "max_seconds": 24 * 3600}
"""Where the paper's sizes and steps run; whoever has none may ask for other resources."""
QUICK_FULL: Members = {
    "training": {"steps": 1600},
    "tuning": {"trials": 2, "learning_rates": [5e-4, 1e-3]},
}
"""Full fine-tuning on new tasks in quick presets: the histogram is lost at higher rates."""
QUICK_DIGITS: Members = {"length": 8, "alphabet": 6}
"""Of questions to the quick four-layer model; the paper's have ten digits below eight."""
QUICK_RATES = 4
QUICK_RANGE: Members = {"learning_rate_range": [3e-3, 1.0]}
"""Of prefixes in quick presets, where lower rates would not move them from where they start."""
SKILL_LABELS = ("ascending", "descending", "+1", "+2")
NEW_LABELS = ("ascending, +1", "histogram")


def shorter(tasks: Iterable[Members]) -> tuple[Members, ...]:
    """The tasks with the questions of quick presets."""
    return tuple({**task, **QUICK_DIGITS} for task in tasks)


def constant(steps: int, rate: float, decay: float = 0.1) -> Members:
    """The paper's training: AdamW at one constant rate, 64 items a step, no warm-up."""
    return {
        "steps": steps,
        "batch_size": 64,
        "learning_rate": rate,
        "schedule": "constant",
        "warmup_fraction": 0.0,
        "weight_decay": decay,
    }


def one_rate(training: Members) -> Members:
    """What a method is given that is trained at a single rate, whatever the others are."""
    return {"training": training, "tuning": {"trials": 1}}


def base(
    name: str,
    family: Members,
    task: Members,
    training: Members,
    *,
    seeds: int,
    scored: Sequence[Members],
    samples: int = 3200,
    **members: object,
) -> Members:
    """A miniGPT that is trained for the study, and scored on everything that tables show."""
    return {
        "name": name,
        "family": {"name": "minigpt", **family},
        "task": task,
        "training": training,
        "seeds": seeds,
        "evaluation": {"tasks": tuple(scored), "samples": samples},
        **members,
    }


def skills_base(*, pads: int = 10, layers: int = 4, seeds: int = 3, norm: bool = True) -> Members:
    """The paper's model of four heads and width 256, which saw four tasks without a cue.

    One name stands for one model: recipes with the same `pads` and `layers` share it.
    """
    name = f"petrov2024-skills-{layers}l-{pads}-pads{'' if norm else '-no-norm'}"
    return base(
        name,
        {**_four_heads(256, layers, pads, norm), "dropout": 0.1},
        MIXTURE,
        constant(40_000, 5e-4),
        seeds=seeds,
        scored=(*SKILLS, *NEW),
        resources=GPU,
    )


def quick_skills_base(*, layers: int = 4, norm: bool = True) -> Members:
    """The same at width 64, for shorter questions and in fewer steps, without dropout."""
    return base(
        f"petrov2024-skills-{layers}l{'' if norm else '-no-norm'}-quick",
        _four_heads(64, layers, 10, norm),
        {"name": "mixture", "tasks": shorter(SKILLS)},
        _quick_training(layers),
        seeds=3,
        scored=shorter((*SKILLS, *NEW)),
        samples=1000,
    )


def _quick_training(layers: int) -> Members:
    """A single layer needs more steps, and bears a higher rate."""
    deep = layers > 1
    steps, rate = (2000, 3e-3) if deep else (3000, 6e-3)
    return {"steps": steps, "batch_size": 32, "learning_rate": rate, "validations": 5}


def _four_heads(width: int, layers: int, pads: int, norm: bool) -> Members:
    sizes: Members = {"layers": layers, "heads": 4, "width": width, "pad_positions": pads}
    return sizes if norm else {**sizes, "attention_norm": False}


def method(label: str, name: str, **given: object) -> Members:
    """A method of a study; what stands at every base model and on every task names neither."""
    return {"name": name, "label": label, **given}


def prefix(label: str, length: int, *, start: float = 1.0, **given: object) -> Members:
    """A prefix in front of every layer, its rows drawn with deviation `start`."""
    return method(label, "prefix_tuning", length=length, initial_scale=start, **given)


def mlp_lora(label: str, rank: int = 1, **given: object) -> Members:
    """LoRA of both matrices of every MLP: at rank 1 as large as a prefix of 10 rows."""
    return method(label, "lora", rank=rank, sites=("mlp",), **given)


def paper_lora(label: str, **given: object) -> Members:
    """Rank 1 where the published code puts it: on the MLP and on what attention puts out."""
    return method(label, "lora", rank=1, sites=("mlp", "attn.o"), **given)


def study(
    name: str,
    *,
    bases: Sequence[Members],
    tasks: Sequence[Members],
    methods: Sequence[Members],
    budget: int,
    seeds: int,
    scored: Sequence[Members],
    samples: int = 3200,
    **members: object,
) -> StudySpec:
    """A study of methods of given sizes, all within one budget."""
    return StudySpec.model_validate(
        {
            "name": name,
            "base_models": tuple(bases),
            "tasks": tuple(tasks),
            "methods": tuple(methods),
            "budgets": (budget,),
            "seeds": seeds,
            "evaluation": {"tasks": tuple(scored), "samples": samples},
            **members,
        }
    )


def columns(labels: Iterable[str], tasks: Iterable[Members]) -> tuple[TableColumn, ...]:
    """The tasks that a table shows every row on."""
    pairs = zip(labels, tasks, strict=True)
    return tuple(
        TableColumn(label=label, task=Choice.model_validate(task)) for label, task in pairs
    )


def row(
    label: str,
    *published: PublishedScore | float | None,
    of: str | None = None,
    on: str | None = None,
    task: Members | None = None,
) -> TableRow:
    """A row: a method `of` the study trained on `task` from the base `on`; scores in per cent."""
    chosen = None if task is None else Choice.model_validate(task)
    return TableRow(
        label=label,
        of=RowSelector(base_model=on, method=of, task=chosen),
        published=tuple(_score(cell) for cell in published),
    )


def _score(cell: PublishedScore | float | None) -> PublishedScore | None:
    return score(cell) if isinstance(cell, int | float) else cell


def claim(
    name: str,
    text: str,
    *tests: PlainTest,
    arxiv_v1: tuple[str, tuple[PlainTest, ...]] | None = None,
) -> Claim:
    """A claim in the wording of ICLR and, where it differs, in that of the first version."""
    first = None if arxiv_v1 is None else wording(arxiv_v1[0], *arxiv_v1[1])
    return Claim(id=name, iclr=wording(text, *tests), arxiv_v1=first)


def wording(text: str, *tests: PlainTest) -> Wording:
    """A text with its tests, all of which it needs."""
    return Wording(text=text, test=tests[0] if len(tests) == 1 else AllOf(tests=tests))


def at_least(row: str, column: str, value: float) -> ScoreAtLeast:
    """The row's mean score is so high."""
    return ScoreAtLeast(row=row, column=column, value=value)


def at_most(row: str, column: str, value: float) -> ScoreAtMost:
    """The row's mean score is so low."""
    return ScoreAtMost(row=row, column=column, value=value)


def above(row: str, other: str, column: str, by: float) -> ScoreAbove:
    """The row scores so much more than the other."""
    return ScoreAbove(row=row, column=column, other=other, by=by)


def holds(check: str, report: str | None = None, of: RowSelector | None = None) -> CheckHolds:
    """A theory check of the study holds."""
    return CheckHolds(check=check, report=report, of=of)


def within(entries: Iterable[Members], **given: object) -> tuple[Members, ...]:
    """The same methods, each with further members: the tasks or base models it is kept to."""
    return tuple({**entry, **given} for entry in entries)
