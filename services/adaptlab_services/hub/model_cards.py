"""Model cards: what a pushed adapter is, and the verdict on its method.

The same adapter has the same card at any time, so a repeated push changes nothing. No names of
people, folders or studies are in it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version

import yaml
from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.comparisons.report import RIGHT, Report, ReportRow
from adaptlab.figures import counted
from adaptlab.plugins.registry import as_json
from adaptlab.specs.resolved import ResolvedAdapt, readable
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.weights.hub_name import FetchedDataset, HubOrigin
from adaptlab_db.tables import CheckpointRow, EvaluationRow, Job
from adaptlab_services.comparisons import comparisons
from adaptlab_services.models.base_tensors import BaseTensors
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.studies.studies_of_jobs import first_studies

TAG = "adaptlab"
VERSION = version("adaptlab")
LOADING = """```python
from peft import PeftModel
from transformers import AutoModelForCausalLM

base = AutoModelForCausalLM.from_pretrained({base!r}{revision})
model = PeftModel.from_pretrained(base, {repository!r})
```"""


def model_card(
    session: Session,
    checkpoint: CheckpointRow,
    repository: str,
    endpoint: str,
    readme: str | None,
) -> str:
    """Return the `README.md` of a pushed adapter.

    Args:
        session: a unit of work that sees the job and its study.
        checkpoint: the adapter.
        repository: where it is pushed.
        endpoint: the address of the hub.
        readme: what the exported folder says about its trained head, None without one.
    """
    job = session.get_one(Job, checkpoint.job_id)
    document = ResolvedSpec.model_validate(job.resolved_spec)
    resolved = readable(document)
    assert isinstance(resolved, ResolvedAdapt)  # only adapters have a PEFT folder
    origin = origin_of(session, job)
    base = resolved.base_model if origin is None else origin.repository
    report, own = _report(session, job, resolved)
    compared: list[str] = [] if report is None else [*_compared(report)]
    sections = [
        f"# {resolved.method.title} for {resolved.task.name} on {base}",
        "" if report is None else f"**{report.headline}**",
        *compared,
        "## What this is",
        *(f"- {fact}" for fact in _facts(session, checkpoint, resolved, origin)),
        "## How to load it",
        readme or _loading(base, origin, repository),
        "## What was not tested",
        "Only the test items of this task were scored. Nothing is known about other tasks, other "
        "languages, or whether its answers are safe.",
        f"Made with adaptlab {VERSION}; the digest of the job is {job.spec_digest}.",
    ]
    metadata = dict(_metadata(resolved, origin))
    if report is not None and own is not None and math.isfinite(float(own.figure)):
        dataset = _dataset(resolved, document.dataset_origins)
        source = {"name": f"adaptlab {VERSION}", "url": f"{endpoint}/{repository}"}
        result = {**_result(resolved, report, own), "dataset": dataset, "source": source}
        name = repository.rpartition("/")[2]
        metadata["model-index"] = [{"name": name, "results": [result]}]
    head = yaml.safe_dump(metadata, sort_keys=True, allow_unicode=True)
    return f"---\n{head}---\n\n" + "\n\n".join(_joined(sections)) + "\n"


def origin_of(session: Session, job: Job) -> HubOrigin | None:
    """Return where an adaptation's base was fetched, None if nowhere."""
    assert job.base_model is not None
    base = BaseTensors.of(session, job.base_model, job.project_id, 0, ModelRoots({}))
    return None if base.folder is None else base.folder.origin


def _joined(sections: Sequence[str]) -> Iterator[str]:
    """Yield paragraphs; the lines of a list or table are one."""
    block: list[str] = []
    for section in sections:
        if section.startswith(("- ", "|")):
            block.append(section)
            continue
        if block:
            yield "\n".join(block)
            block = []
        if section:
            yield section
    if block:
        yield "\n".join(block)


def _metadata(resolved: ResolvedAdapt, origin: HubOrigin | None) -> Mapping[str, object]:
    """Return the members of the card that the hub reads, without scores."""
    tags = [TAG, resolved.method.name.replace("_", "-")]
    if origin is None:
        return {"library_name": "peft", "tags": tags}
    licence = {
        "license": origin.licence,
        "license_name": origin.licence_name,
        "license_link": origin.licence_link,
    }
    return {
        "library_name": "peft",
        "base_model": origin.repository,
        "tags": [f"base_model:adapter:{origin.repository}", *tags],
        **{name: text for name, text in licence.items() if text is not None},
    }


def _result(resolved: ResolvedAdapt, report: Report, own: ReportRow) -> Mapping[str, object]:
    """Return the score of a method in the form of `model-index`.

    It is the figure in the card's table, in its unit and over its seeds.
    """
    metric = "accuracy" if report.unit == RIGHT else str(as_json(resolved.task).get("metric"))
    return {
        "task": {"type": resolved.task.hub_task, "name": resolved.task.title},
        "metrics": [
            {
                "type": metric,
                "value": float(own.figure),
                "name": f"{report.unit}, mean of {counted(own.seeds, 'seed')}",
            }
        ],
    }


def _dataset(resolved: ResolvedAdapt, origins: Sequence[FetchedDataset]) -> Mapping[str, object]:
    """Return what was scored, by its name on the hub if that is public."""
    digests = sorted(reference.digest for reference in resolved.task.datasets())
    args = {"test_items": resolved.test_items, "digests": digests}
    public = [one for one in origins if [one.digest] == digests and not one.private]
    if not public:
        return {"type": resolved.task.name, "name": resolved.task.title, "args": args}
    (one, *_) = public
    return {
        "type": one.repository,
        "name": one.repository,
        "config": one.config,
        "split": one.split,
        "revision": one.commit,
        "args": args,
    }


def _report(
    session: Session, job: Job, resolved: ResolvedAdapt
) -> tuple[Report | None, ReportRow | None]:
    """Return the report of the job's first study, or of it alone, and its row."""
    study = first_studies(session, [job.id]).get(job.id)
    view = (
        comparisons.of_jobs(session, [job.id])
        if study is None
        else comparisons.of_study(session, study)
    )
    for table in view.tables:
        labels = {method.label for method in table.methods if job.id in method.jobs}
        for report in table.reports if labels else ():
            sizes = {row.parameters for row in report.rows}
            if resolved.budget.trainable_parameters in sizes:
                own = [row for row in report.rows if row.label in labels]
                return report, next(iter(own), None)
    return None, None


def _compared(report: Report) -> Iterator[str]:
    yield f"| Method | Parameters | {report.unit} | {report.level:.0%} limits | Seeds that worked |"
    yield "| --- | --- | --- | --- | --- |"
    for row in report.rows:
        size = "" if row.parameters is None else f"{row.parameters:,}"
        seeds = f"{row.seeds_ok} of {row.seeds}"
        yield f"| {row.title} | {size} | {row.figure} | {row.limits} | {seeds} |"


def _facts(
    session: Session,
    checkpoint: CheckpointRow,
    resolved: ResolvedAdapt,
    origin: HubOrigin | None,
) -> Iterator[str]:
    if origin is None:
        digest = resolved.base_digest
        yield f"Base model: {resolved.base_model}, which is on no hub; digest {digest}"
    else:
        yield f"Base model: {origin.repository} at commit {origin.commit}"
    settings = ", ".join(
        f"{name} {value}" for name, value in as_json(resolved.method).items() if name != "name"
    )
    yield f"Method: {resolved.method.title} ({settings})"
    yield f"Trained parameters: {resolved.budget.trainable_parameters:,}"
    yield f"Training: {resolved.training.steps:,} steps, {len(resolved.trials)} trial(s) per seed"
    yield f"Task: {resolved.task.name}, scored on {resolved.test_items:,} test items"
    digests = sorted(reference.digest for reference in resolved.task.datasets())
    if digests:
        yield f"Dataset: digest {', '.join(digests)}"
    if resolved.task.classes() is not None:
        yield f"Labels, in the order of the outputs: {', '.join(resolved.task.class_values())}"
    seeds = ", ".join(map(str, resolved.seeds))
    yield f"Seeds: {seeds}; this is the adapter of seed {checkpoint.seed}"
    own = session.scalars(
        select(EvaluationRow)
        .where(EvaluationRow.job_id == checkpoint.job_id, EvaluationRow.seed == checkpoint.seed)
        .where(EvaluationRow.attempt == checkpoint.attempt, EvaluationRow.attached)
        .where(EvaluationRow.base_model == "")
        .order_by(EvaluationRow.id)
    ).first()
    if own is not None:
        yield f"Score of this seed alone: {own.correct:,} of {own.total:,} right"


def _loading(base: str, origin: HubOrigin | None, repository: str) -> str:
    if origin is None:
        export = f"`adaptlab base-models export {base} BASE` writes the base model.\n\n"
        return export + LOADING.format(base="BASE", revision="", repository=repository)
    revision = f", revision={origin.commit!r}"
    return LOADING.format(base=base, revision=revision, repository=repository)
