"""The demo's study, run through HTTP as a user's script would run it.

Pretrain a small model to sort in ascending order, adapt it to descending order with four methods,
and read from the results which of them could and what happened to the attention.
"""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from adaptlab.charts import AttentionPattern
from adaptlab.statistics import Interval, seed_interval
from adaptlab_client import Client, Conflict, Job

BASE = "sort-asc-1l"
SEEDS = 3
BUDGET = 1728
FIGURE_INPUT = (2, 6, 0, 1, 4, 6, 3, 0, 1, 2)
TASKS = ("sort_ascending", "sort_descending")
EVALUATION = {"tasks": list(TASKS), "samples": 3200}
CAPTURE = {"attention": {"inputs": [list(FIGURE_INPUT)]}}

PRETRAINING: Mapping[str, object] = {
    "kind": "pretrain",
    "name": BASE,
    "family": {"name": "minigpt", "layers": 1, "heads": 1, "width": 96},
    "task": "sort_ascending",
    "training": {"steps": 600},
    "seeds": SEEDS,
    "evaluation": EVALUATION,
    "capture": CAPTURE,
    "labels": {"demo": "petrov2024"},
}


@dataclass(frozen=True)
class Row:
    """One line of the demo's table."""

    label: str
    job: Job
    trainable_parameters: int
    accuracies: Mapping[str, Interval]
    deviation: float | None


class StudyFailed(Exception):
    """A job of the demo did not succeed."""


def adaptation(method: Mapping[str, object], steps: int, budget: int | None) -> dict[str, object]:
    """The spec of one adaptation of the demo's base model to descending order."""
    spec: dict[str, object] = {
        "kind": "adapt",
        "base_model": BASE,
        "task": "sort_descending",
        "method": method,
        "training": {"steps": steps},
        "evaluation": EVALUATION,
        "capture": CAPTURE,
        "labels": {"demo": "petrov2024"},
    }
    return spec if budget is None else {**spec, "budget": budget}


ADAPTATIONS: Mapping[str, Mapping[str, object]] = {
    "full fine-tuning": adaptation({"name": "full_finetuning"}, 600, None),
    "LoRA": adaptation({"name": "lora", "sites": ["attn", "mlp"]}, 800, BUDGET),
    "prefix-tuning": adaptation({"name": "prefix_tuning"}, 1500, BUDGET),
    "soft prompt": adaptation({"name": "soft_prompt"}, 1500, BUDGET),
}


def submit(client: Client) -> dict[str, Job]:
    """Submit all jobs, the pretraining first; an earlier demo's base model is used again."""
    try:
        base = client.jobs.submit(PRETRAINING)
    except Conflict:
        base = client.jobs.get(str(client.base_models.get(BASE).job_id))
    return {
        "pretrained": base,
        **{label: client.jobs.submit(spec) for label, spec in ADAPTATIONS.items()},
    }


def await_all(
    client: Client, jobs: Mapping[str, Job], on_progress: Callable[[Job], None]
) -> dict[str, Job]:
    """Wait for every job; raises `StudyFailed` for the first that does not succeed."""
    labels = {job.id: label for label, job in jobs.items()}
    ended: dict[str, Job] = {}
    for job in client.jobs.as_ended(list(labels), timeout=1800, on_progress=on_progress):
        if not job.succeeded:
            raise StudyFailed(f"{labels[job.id]} ended as {job.state}: {job.error or job.reason}")
        ended[labels[job.id]] = job
    return {label: ended[label] for label in jobs}


def table(client: Client, jobs: Mapping[str, Job]) -> Iterator[Row]:
    """Accuracies with their intervals over seeds, and the largest change of attention."""
    for label, job in jobs.items():
        evaluations = client.jobs.evaluations(job.id, attached=True)
        scores = {
            task: seed_interval(
                [e.correct for e in evaluations if e.task_name == task],
                [e.total for e in evaluations if e.task_name == task],
            )
            for task in TASKS
        }
        maps = client.jobs.attention(job.id, layer=0, source="adapted")
        deviations = [s.relative_deviation or 0.0 for m in maps for s in m.summaries]
        trained = job.budget.trainable_parameters if job.budget else 0
        yield Row(label, job, trained, scores, max(deviations, default=None))


def patterns(client: Client, jobs: Mapping[str, Job]) -> Iterator[AttentionPattern]:
    """The attention of base, fine-tuned and prefix-tuned model for the input of the figure."""
    sources = (
        ("base (ascending)", "full fine-tuning", "base"),
        ("full fine-tuning", "full fine-tuning", "adapted"),
        ("prefix-tuning", "prefix-tuning", "adapted"),
    )
    for title, label, source in sources:
        found = client.jobs.attention(jobs[label].id, source=source)[0]
        array = client.jobs.attention_array(jobs[label].id, found)[0, 0, 0]
        answer = " ".join(str(token) for token in found.predictions[0])
        yield AttentionPattern(
            title=title,
            subtitle=f"answers {answer}",
            weights=tuple(tuple(float(weight) for weight in row) for row in array),
            tokens=tuple(str(token) for token in found.tokens[0]),
            learned_positions=found.learned_positions,
            target_start=found.target_start,
        )


def machine(cores: int) -> str:
    """The machine in words, for the line under the table."""
    return f"{cores} CPU cores, {platform.machine()}, Python {platform.python_version()}"


def findings(rows: Sequence[Row]) -> Iterator[str]:
    """What the table shows, in sentences that follow from its figures alone."""
    for row in rows:
        if row.deviation is None:
            continue
        score = row.accuracies["sort_descending"]
        learned = "learned" if score.low >= 0.9 else "did not learn"
        if score.high > 0.1 and score.low < 0.9:
            learned = "partly learned"
        moved = (
            "without moving the first layer's attention"
            if row.deviation < 1e-9
            else f"moving the first layer's attention by up to {row.deviation:.2f}"
        )
        yield f"{row.label} {learned} the descending order, {moved}."
