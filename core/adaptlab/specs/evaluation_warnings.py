"""Warnings about test items that are there and not scored."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from adaptlab.plugins.registry import as_json
from adaptlab.plugins.task import Task
from adaptlab.specs.resolved import Resolved, ResolvedTheory, scored_tasks
from adaptlab.specs.spec import MOST_SAMPLES, EvaluationSpec
from adaptlab.specs.task_labels import label_among


def evaluation_warnings(asked: EvaluationSpec, jobs: Iterable[Resolved]) -> tuple[str, ...]:
    """Return the warnings about the evaluations of jobs, each once.

    A number of items that the spec asks for needs none.
    """
    found = (warning for job in jobs for warning in _warnings(asked, job))
    return tuple(dict.fromkeys(found))


def _warnings(asked: EvaluationSpec, job: Resolved) -> Iterator[str]:
    if isinstance(job, ResolvedTheory) or "samples" in asked.model_fields_set:
        return
    samples = job.evaluation_samples
    for label, count in _test_items(scored_tasks(job)).items():
        if count > samples:
            yield (
                f"{samples:,} of the {count:,} test items of {label} are scored, unless "
                f"evaluation.samples is set; it can be up to {min(count, MOST_SAMPLES):,}."
            )


def _test_items(tasks: Sequence[Task]) -> Mapping[str, int]:
    """Return the test items of tasks that have a number of them, by label."""
    documents = [as_json(task) for task in tasks]
    return {
        label_among(document, documents) or task.name: count
        for task, document in zip(tasks, documents, strict=True)
        if (count := task.available("test")) is not None
    }
