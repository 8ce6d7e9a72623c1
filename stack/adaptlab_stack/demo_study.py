"""The demo's study, run through HTTP as a user's script would run it.

Small models are pretrained to sort in ascending order and adapted to descending order with five
methods: the same steps, the same seeds, three learning rates each, and one budget.
"""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from adaptlab.charts import AttentionPattern
from adaptlab.comparisons.report import report_lines
from adaptlab_client import Client, Conflict, JobView, StudyView
from adaptlab_client.display.comparison_tables import StudyComparison
from adaptlab_client.resources.study_run import StudyRun

NAME = "demo"
BASE = "sort-asc-1l"
SEEDS = 5
STEPS = 600
BUDGET = 1152
FIGURE_INPUT = (2, 6, 0, 1, 4, 3)
LENGTH = len(FIGURE_INPUT)
ASCENDING: Mapping[str, object] = {"name": "sort_ascending", "length": LENGTH}
DESCENDING: Mapping[str, object] = {"name": "sort_descending", "length": LENGTH}
SAMPLES = 1000
EVALUATION: Mapping[str, object] = {"tasks": [ASCENDING, DESCENDING], "samples": SAMPLES}
LEARNED_POSITIONS = {"learning_rates": [1e-2, 1e-1, 1.0]}
LABELS = {"demo": "petrov2024"}
METHODS: Mapping[str, Mapping[str, object]] = {
    "full_finetuning": {"tuning": {"learning_rates": [1e-3, 3e-3, 1e-2]}},
    "lora": {
        "label": "lora",
        "sites": ["attn", "mlp"],
        "tuning": {"learning_rates": [5e-3, 1.5e-2, 4.5e-2]},
    },
    "prefix_tuning": {"tuning": LEARNED_POSITIONS},
    "soft_prompt": {"tuning": LEARNED_POSITIONS},
    "attention_bias": {"tuning": LEARNED_POSITIONS},
}
"""The methods in the order of the table.

Learning rates are a factor of 3 apart, or 10 for prefixes and prompts, whose best rate is known
less precisely.
"""

LONGER = {"steps": 2 * STEPS, "schedule": "constant", "warmup_fraction": 0.0}
RATES = [3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0]
LENGTH_AT_BUDGET = 18
CONTROLS: Sequence[Mapping[str, Any]] = [
    {
        "name": "prefix_tuning",
        "length": LENGTH_AT_BUDGET,
        "label": "prefix_tuning, twice the steps",
        "training": LONGER,
        "tuning": {"learning_rates": RATES},
    },
    {
        "name": "prefix_tuning",
        "length": 2 * LENGTH_AT_BUDGET,
        "label": "prefix_tuning, twice the size",
        "tuning": {"learning_rates": RATES},
    },
    {
        "name": "attention_bias",
        "label": "attention_bias, twice the steps",
        "training": LONGER,
        "tuning": {"learning_rates": [*RATES[1:], 10.0]},
    },
    {
        "name": "pinned_finetuning",
        "training": {"steps": 2 * STEPS},
        **METHODS["full_finetuning"],
    },
]
"""The trainings from which the diagnoses of the failing methods are decided.

Each has all seeds, and learning rates over three powers of ten, up to the highest that is usual for
its method. Fine-tuning with pinned attention has those of full fine-tuning.
"""

SPEC: Mapping[str, Any] = {  # Any: the JSON of a study
    "name": NAME,
    "base_models": [
        {
            "kind": "pretrain",
            "name": BASE,
            "family": {"name": "minigpt", "layers": 1, "heads": 1, "width": 64},
            "task": ASCENDING,
            "training": {"steps": STEPS, "batch_size": 32, "learning_rate": 5e-3},
            "seeds": SEEDS,
            "evaluation": EVALUATION,
            "labels": LABELS,
        }
    ],
    "tasks": [DESCENDING],
    "methods": [{"name": name, **knobs} for name, knobs in METHODS.items()],
    "budgets": [BUDGET],
    "controls": CONTROLS,
    "seeds": SEEDS,
    "training": {"steps": STEPS, "batch_size": 32},
    "evaluation": {"samples": SAMPLES},
    "capture": {"attention": {"inputs": [list(FIGURE_INPUT)]}},
    "labels": LABELS,
}


class StudyFailed(Exception):
    """The demo's study cannot be created, or one of its jobs did not succeed."""


def begin(client: Client, spec: Mapping[str, Any] | None = None) -> StudyRun:
    """Create the study, or find that of an earlier start and run the rest.

    The default spec is `SPEC`.

    Raises:
        StudyFailed: the server has other resources with these names.
    """
    try:
        run = client.studies.run(SPEC if spec is None else spec)
    except Conflict as error:
        text = f"{error}\nAnother version of adaptlab created this data. Choose another --data-dir."
        raise StudyFailed(text) from error
    study = client.studies.get(run.id)  # a repeated creation does not return the current state
    if study.terminal and not study.succeeded:
        study = client.studies.extend(run.id)
    run.study = study
    return run


def finish(client: Client, run: StudyRun, on_progress: Callable[[StudyView], None]) -> StudyView:
    """Wait for every job; raises `StudyFailed` if one does not succeed."""
    study = client.studies.wait(run.id, on_progress=on_progress)
    if study.succeeded:
        return study
    failed = [job for job in client.studies.jobs(run.id) if job.terminal and not job.succeeded]
    causes = "; ".join(f"{label_of(job)} {job.state}: {job.error or job.reason}" for job in failed)
    raise StudyFailed(f"The study ended as {study.state}. {causes}")


def label_of(job: JobView) -> str:
    """Return the name of a job of the demo."""
    return "pretraining" if job.kind == "pretrain" else str(job.method)


def jobs_by_method(client: Client, study: StudyView) -> Mapping[str, JobView]:
    """Return the pretraining, then the adaptations in the order of the study."""
    controls = {job.id for cell in study.cells if cell.role == "control" for job in cell.jobs}
    jobs = [job for job in client.studies.jobs(study.id) if job.id not in controls]
    by_label = {label_of(job): job for job in jobs}
    return {name: by_label[name] for name in ("pretraining", *METHODS)}


def patterns(client: Client, jobs: Mapping[str, JobView]) -> Iterator[AttentionPattern]:
    """Yield the figure's attention of base, fine-tuned and prefix-tuned model."""
    sources = (
        ("base (ascending)", "full_finetuning", "base"),
        ("full fine-tuning", "full_finetuning", "adapted"),
        ("prefix-tuning", "prefix_tuning", "adapted"),
    )
    for title, label, source in sources:
        first = client.jobs.attention(jobs[label].id, source=source)[0]
        array = client.jobs.attention_array(jobs[label].id, first)[0, 0, 0]
        answer = " ".join(str(token) for token in first.predictions[0])
        yield AttentionPattern(
            title=title,
            subtitle=f"seed {first.seed}, answers {answer}",
            weights=tuple(tuple(float(weight) for weight in row) for row in array),
            tokens=tuple(str(token) for token in first.tokens[0]),
            learned_positions=first.learned_positions,
            target_start=first.target_start,
        )


def machine(cores: int) -> str:
    """Return a description of the machine, for the line under the table."""
    return f"{cores} CPU cores, {platform.machine()}, Python {platform.python_version()}"


def conclusions(comparison: StudyComparison) -> Iterator[str]:
    """Yield the study's reports as lines of text."""
    for table in comparison.tables:
        for report in table.reports:
            yield from report_lines(report)
