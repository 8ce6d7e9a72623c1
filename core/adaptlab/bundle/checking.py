"""Check of a bundle without a server: digests, numbers and texts."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from pydantic import BaseModel, ValidationError

from adaptlab.bundle import bounds, contents
from adaptlab.bundle.agreement import disagreements
from adaptlab.bundle.contents import (
    ClaimEvidence,
    FrozenJob,
    FrozenStudy,
    Manifest,
    SourceList,
    Sources,
    StudyClaim,
    TableEvidence,
    resolved_study,
)
from adaptlab.bundle.decision import decision_text
from adaptlab.bundle.plots import plots
from adaptlab.bundle.read_me import read_me_text
from adaptlab.bundle.reading import BundleReader
from adaptlab.bundle.tables import bundle_tables, csv_bytes
from adaptlab.comparisons.comparability import ComparedJob, comparability
from adaptlab.comparisons.comparison import Comparison, compare
from adaptlab.comparisons.comparison_warnings import ComparisonWarning
from adaptlab.comparisons.table_comparison import (
    TableComparison,
    table_warnings,
    with_reports,
)
from adaptlab.errors import BrokenBundle
from adaptlab.specs.resolved import UnreadSpec, read_resolved, spec_digest
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.statistics import Scores
from adaptlab.studies.study import stored_axis
from adaptlab.values import Value

V = TypeVar("V", bound=BaseModel)
MOST_FINDINGS = 50
OF_THE_SERVER = ("base_not_learned", "imported_base", "unread")
"""Warnings that rest on a server's base models and plug-ins, so that they are not recomputed."""


class Finding(Value):
    """An error in a member."""

    member: str
    text: str


class CheckedBundle(Value):
    """The result of a check.

    `claim` has the recomputed numbers, and `numbers` counts those that agree with the bundle's.
    `findings` is empty if the bundle is valid.
    """

    study: FrozenStudy
    claim: StudyClaim
    decision: str
    members: int
    numbers: int
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """True if there are no findings."""
        return not self.findings


class _Parts(Value):
    """The members from which everything else follows."""

    study: FrozenStudy
    jobs: tuple[FrozenJob, ...]
    claim: StudyClaim
    evidence: ClaimEvidence


def check_bundle(path: Path) -> CheckedBundle:
    """Check a bundle.

    Every digest of the manifest is verified. Intervals, tests, ranks, verdicts, curves and warnings
    are recomputed from the outcomes and the jobs' specs. Tables and texts are written again, and
    everything is compared. Diagnoses, retention, groups of standard tasks and trials are not
    checked, because the data behind them are only on the server.

    Raises:
        BrokenBundle: the file cannot be read as a bundle; the error names the member.
    """
    with BundleReader(path) as reader:
        manifest = _value(reader, contents.MANIFEST, Manifest)
        if manifest.format != contents.FORMAT:
            raise BrokenBundle(
                contents.MANIFEST,
                f"the bundle has the format {manifest.format}, but this version reads "
                f"{contents.FORMAT}. Check it with the version of adaptlab that wrote it.",
            )
        changed = [*_digests(reader, manifest)]
        parts = _parts(reader)
        sources = _sources(parts.jobs)
        recomputed, broken = _recomputed(parts)
        stated = parts.claim
        numbers, differences = disagreements(
            stated.model_dump(mode="json"), recomputed.model_dump(mode="json")
        )
        findings = [
            *changed,
            *broken,
            *(Finding(member=contents.CLAIM, text=text) for text in differences),
            *_jobs(parts),
            *_manifest(manifest, parts, sources),
            *_rendered(reader, parts, recomputed, sources),
        ]
    return CheckedBundle(
        study=parts.study,
        claim=recomputed,
        decision=decision_text(parts.study, recomputed, sources, _digests_of(parts)),
        members=len(manifest.members),
        numbers=numbers,
        findings=tuple(findings[:MOST_FINDINGS]),
    )


def _digests(reader: BundleReader, manifest: Manifest) -> Iterator[Finding]:
    """Yield the members that differ from the manifest.

    Raises:
        BrokenBundle: a member is missing, or is not listed.
    """
    listed = {member.name: member for member in manifest.members}
    for name in (*contents.FIXED, *sorted(listed)):
        if name not in reader.names:
            raise BrokenBundle(name, "this member is missing.")
    for name in sorted(reader.names - {contents.MANIFEST}):
        if name not in listed:
            raise BrokenBundle(name, "the manifest does not list this member.")
        sha256, size = reader.digest(name)
        if (sha256, size) != (listed[name].sha256, listed[name].size):
            text = f"its SHA-256 is {sha256}, but the manifest lists {listed[name].sha256}."
            yield Finding(member=name, text=text)


def _parts(reader: BundleReader) -> _Parts:
    listed = reader.read(contents.JOBS)
    bounds.check_jobs(listed)
    lines = listed.splitlines()
    parts = _Parts(
        study=_value(reader, contents.STUDY, FrozenStudy),
        jobs=tuple(_parsed(contents.JOBS, line, FrozenJob) for line in lines),
        claim=_value(reader, contents.CLAIM, StudyClaim),
        evidence=_value(reader, contents.EVIDENCE, ClaimEvidence),
    )
    bounds.check_claim(parts.claim)
    bounds.check_evidence(parts.evidence)
    return parts


class _Jobs:
    """Jobs by id, with a cache of their resolved specs."""

    def __init__(self, jobs: Sequence[FrozenJob]) -> None:
        self._jobs = {job.id: job for job in jobs}
        self._specs: dict[UUID, ResolvedSpec] = {}

    def get(self, job: UUID) -> FrozenJob:
        """Return a job; raises `BrokenBundle` if it is missing."""
        if job not in self._jobs:
            raise BrokenBundle(contents.JOBS, f"the job {job} is missing.")
        return self._jobs[job]

    def resolved(self, job: UUID) -> ResolvedSpec:
        """Return the resolved spec of a job."""
        if job not in self._specs:
            self._specs[job] = _resolved(self.get(job))
        return self._specs[job]


def _value(reader: BundleReader, name: str, kind: type[V]) -> V:
    return _parsed(name, reader.read(name), kind)


def _parsed(name: str, content: bytes, kind: type[V]) -> V:
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = "".join(f"/{part}" for part in fault["loc"])
        raise BrokenBundle(name, f"it cannot be read at {place or '/'}: {fault['msg']}.") from error


def _recomputed(parts: _Parts) -> tuple[StudyClaim, list[Finding]]:
    """Return the claim with every number recomputed from the outcomes."""
    stated, evidence = parts.claim, parts.evidence
    if len(stated.tables) != len(evidence.tables):
        raise BrokenBundle(
            contents.EVIDENCE,
            f"it has outcomes for {len(evidence.tables)} tables, but the claim has "
            f"{len(stated.tables)}.",
        )
    jobs = _Jobs(parts.jobs)
    tables: list[TableComparison] = []
    findings: list[Finding] = []
    for table, behind in zip(stated.tables, evidence.tables, strict=True):
        comparison = _compared(behind, jobs, parts, _server_warnings(table), _alone(table))
        place = {"base_model": behind.base_model, "task": behind.task, "comparison": comparison}
        tables.append(with_reports(table.model_copy(update=place)))
        findings += _effort(table, behind, jobs)
    partial = parts.study.state != "succeeded"
    recomputed = {"partial": partial, "tables": tuple(tables), "warnings": table_warnings(tables)}
    return stated.model_copy(update=recomputed), findings


def _server_warnings(table: TableComparison) -> tuple[ComparisonWarning, ...]:
    """Return the warnings that rest on the server's base models and plug-ins."""
    warnings = () if table.comparison is None else table.comparison.warnings
    return tuple(warning for warning in warnings if warning.kind in OF_THE_SERVER)


def _alone(table: TableComparison) -> float | None:
    """Return the score of the base model alone, if it is the floor."""
    floor = None if table.comparison is None else table.comparison.floor
    return floor.accuracy if floor is not None and floor.kind == "base_alone" else None


def _without_skill(counted: Sequence[ComparedJob]) -> tuple[float, float]:
    """Return the accuracies of guessing and of the best constant answer."""
    resolved = None if not counted else read_resolved(counted[0].spec)
    if resolved is None or isinstance(resolved, UnreadSpec) or resolved.task is None:
        return 0.0, 0.0
    return resolved.task.chance(), resolved.task.constant_answer()


def _compared(
    behind: TableEvidence,
    jobs: _Jobs,
    parts: _Parts,
    of_bases: Sequence[ComparisonWarning],
    alone: float | None,
) -> Comparison | None:
    if not behind.scores:
        return None
    counted = [
        ComparedJob(
            label=job.label,
            spec=jobs.resolved(job.job),
            environment=jobs.get(job.job).environment,
        )
        for job in behind.jobs
    ]
    chance, constant = _without_skill(counted)
    try:
        return compare(
            behind.task,
            behind.scores,
            axis=stored_axis(parts.study.spec),
            reference=behind.reference,
            margin=parts.claim.margin,
            level=parts.claim.level,
            differences=comparability(counted),
            of_bases=of_bases,
            chance=chance,
            constant=constant,
            alone=alone,
        )
    except (ArithmeticError, LookupError, ValueError) as error:
        raise BrokenBundle(contents.EVIDENCE, f"it cannot be compared: {error}") from error


def _effort(table: TableComparison, behind: TableEvidence, jobs: _Jobs) -> Iterator[Finding]:
    """Yield the rows whose size, trials or seeds differ from their jobs'."""
    counted = {job.job for job in behind.jobs}
    methods = {method.label: method for method in table.methods}
    for scores in behind.scores:
        row = methods.get(scores.label)
        if row is None or not counted.issuperset(_scored(row.jobs, scores, jobs)):
            text = f"the claim has no jobs for the outcomes of {scores.label}."
            yield Finding(member=contents.EVIDENCE, text=text)
            continue
        specs = [jobs.resolved(job) for job in row.jobs]
        facts = (specs[0].budget.trainable_parameters, len(specs[0].training.trials))
        seeds = {seed for spec in specs for seed in spec.seeds}
        if facts != (scores.parameters, scores.trials) or not seeds.issuperset(scores.seeds):
            text = (
                f"parameters, trials or seeds of {scores.label} do not match the specs of its jobs."
            )
            yield Finding(member=contents.EVIDENCE, text=text)
        if facts != (row.parameters, row.trials):
            text = f"parameters or trials of {row.label} do not match its jobs."
            yield Finding(member=contents.CLAIM, text=text)


def _scored(ids: Sequence[UUID], scores: Scores, jobs: _Jobs) -> Iterator[UUID]:
    """Yield the succeeded jobs of a row that share a seed with its outcomes.

    If no job does, an id that no job has is yielded.
    """
    sharing = [job for job in ids if not set(scores.seeds).isdisjoint(jobs.resolved(job).seeds)]
    yield from (job for job in sharing if jobs.get(job).state == "succeeded")
    if not sharing:
        yield UUID(int=0)


def _resolved(job: FrozenJob) -> ResolvedSpec:
    return _parsed(contents.JOBS, json.dumps(job.resolved_spec).encode(), ResolvedSpec)


def _digests_of(parts: _Parts) -> dict[str, str]:
    return contents.content_digests(
        (contents.STUDY, parts.study),
        (contents.CLAIM, parts.claim),
        (contents.EVIDENCE, parts.evidence),
    )


def _sources(jobs: Sequence[FrozenJob]) -> Sources:
    listed = SourceList()
    for job in jobs:
        listed.add(job)
    return listed.found()


def _jobs(parts: _Parts) -> Iterator[Finding]:
    """Yield specs with another digest, and a study whose specs disagree."""
    if resolved_study(parts.study.spec) != parts.study.resolved:
        text = "`resolved` does not follow from `spec`."
        yield Finding(member=contents.STUDY, text=text)
    for job in parts.jobs:
        if (digest := spec_digest(_resolved(job))) != job.spec_digest:
            text = f"the spec of job {job.id} has the digest {digest}, not {job.spec_digest}."
            yield Finding(member=contents.JOBS, text=text)


def _manifest(manifest: Manifest, parts: _Parts, sources: Sources) -> Iterator[Finding]:
    if (manifest.study, manifest.sources) != (parts.study.name, sources):
        text = f"study or sources do not match {contents.STUDY} and {contents.JOBS}."
        yield Finding(member=contents.MANIFEST, text=text)


def _rendered(
    reader: BundleReader, parts: _Parts, recomputed: StudyClaim, sources: Sources
) -> Iterator[Finding]:
    """Yield texts and tables that differ from the claim's, and extra plots.

    Raises:
        BrokenBundle: a plot is missing, or the claim cannot be written.
    """
    try:
        written = dict(_written(parts, sources))
        drawn = {name for name, _ in plots(recomputed)}
    except (ArithmeticError, LookupError, ValueError) as error:
        raise BrokenBundle(contents.CLAIM, f"it cannot be written out: {error!r}.") from error
    for name, content in written.items():
        if reader.read(name) != content:
            text = f"it does not follow from {contents.CLAIM} and {contents.EVIDENCE}."
            yield Finding(member=name, text=text)
    for name in sorted(drawn - reader.names):
        raise BrokenBundle(name, "this member is missing.")
    for name in sorted(name for name in reader.names - drawn if name.startswith("plots/")):
        yield Finding(member=name, text="the claim has no such plot.")


def _written(parts: _Parts, sources: Sources) -> Iterator[tuple[str, bytes]]:
    """Yield the texts and tables of the claim by the names of their members."""
    study, claim = parts.study, parts.claim
    yield contents.README, read_me_text(study, claim).encode()
    yield contents.DECISION, decision_text(study, claim, sources, _digests_of(parts)).encode()
    for table in bundle_tables(claim, parts.evidence):
        yield contents.csv_name(table.name), csv_bytes(table)
