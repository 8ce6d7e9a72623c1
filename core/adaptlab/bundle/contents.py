"""What is in a bundle: the claim, the evidence that it rests on, the jobs, and a manifest of all.

Members have fixed names. `TEXTS` and `TABLES` can be made again from the claim and the evidence,
which is how a check finds what was changed in them.
"""

import hashlib
from collections import defaultdict
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, ValidationError

from adaptlab.comparisons.table_comparison import TableComparison, TableWarning
from adaptlab.measurements.results import Environment
from adaptlab.reproductions.recipe import RecipeRef
from adaptlab.statistics import Scores
from adaptlab.studies.study import StudySpec
from adaptlab.values import Value

FORMAT = 3
"""The version of this layout and of every text in it; one that differs cannot be checked here."""

MANIFEST = "manifest.json"
README = "README.md"
DECISION = "decision.md"
STUDY = "specs/study.json"
JOBS = "specs/jobs.jsonl"
CLAIM = "claim.json"
EVIDENCE = "evidence.json"
TEXTS = (README, DECISION)
TABLES = ("scores", "pairs", "outcomes", "learning_rates", "missing")
FIXED = (
    *TEXTS,
    STUDY,
    JOBS,
    CLAIM,
    EVIDENCE,
    *(f"tables/{table}.{form}" for table in TABLES for form in ("csv", "parquet")),
)
"""Every member of every bundle but the manifest and the plots."""
MOST_PLOTS = 120
"""Plots of a bundle; those of further tables and cells are left out, and `--render` draws none."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class FrozenStudy(Value):
    """Which study was frozen; `resolved` is its spec with every default written out.

    Points in time are in UTC, as ISO 8601 has them.
    """

    id: UUID
    name: str
    state: Literal["succeeded", "incomplete", "cancelled"]
    owner: str
    project: str
    recipe: RecipeRef | None
    created_at: str
    extended_at: str | None
    cancelled_at: str | None
    spec: dict[str, object]
    resolved: dict[str, object]


class FrozenJob(Value):
    """A job of the study: what it was asked, what it ran, and what its result was computed with."""

    id: UUID
    kind: str
    state: str
    attempt: int
    spec: dict[str, object]
    resolved_spec: dict[str, object]
    spec_digest: str
    environment: Environment | None


class Claim(Value):
    """What the study says: the warnings first, then one table a base model and task.

    `partial` says that jobs failed or were cancelled, so that scores are missing for good.
    """

    partial: bool
    level: Annotated[float, Field(gt=0, lt=1)]
    margin: Annotated[float, Field(ge=0, le=1)]
    warnings: tuple[TableWarning, ...]
    tables: tuple[TableComparison, ...]


class CountedJob(Value):
    """A job whose scores count, and how warnings about its settings call it."""

    label: str
    job: UUID


class TableEvidence(Value):
    """What one table was computed from: the outcomes of every row, and whose settings must agree.

    `reference` is the method that the cheapest one is measured by.
    """

    base_model: str
    task: str
    reference: str | None
    scores: Annotated[tuple[Scores, ...], Field(max_length=1024)]
    jobs: tuple[CountedJob, ...]


class Evidence(Value):
    """The outcomes behind a claim, table by table in the claim's order."""

    tables: Annotated[tuple[TableEvidence, ...], Field(max_length=1024)]


class Member(Value):
    """A file of the bundle."""

    name: str
    size: Annotated[int, Field(ge=0)]
    sha256: Sha256


class Sources(Value):
    """Where the numbers come from, over all jobs of a study.

    `content` is the SHA-256 of what `JOBS` says of them, as it is written.
    `code_versions` are those that results were computed with, `base_models` the digests of the
    weights that were adapted, by the name of the base model.
    """

    jobs: int
    content: Sha256
    spec_digests: tuple[str, ...]
    code_versions: tuple[str, ...]
    base_models: dict[str, tuple[str, ...]]


class Manifest(Value):
    """What a bundle holds, and the versions of the software that wrote it."""

    format: int
    study: str
    sources: Sources
    software: dict[str, str]
    members: tuple[Member, ...]


def resolved_study(spec: dict[str, object]) -> dict[str, object]:
    """The spec of a study with every default written out; empty for what is none."""
    try:
        return StudySpec.model_validate(spec).model_dump(mode="json")
    except ValidationError:
        return {}


def content_digests(*documents: tuple[str, Value]) -> dict[str, str]:
    """The SHA-256 of what documents say, by the names of their members."""
    return {
        name: hashlib.sha256(value.model_dump_json().encode()).hexdigest()
        for name, value in documents
    }


def csv_name(table: str) -> str:
    """The name of a table as comma-separated values."""
    return f"tables/{table}.csv"


def parquet_name(table: str) -> str:
    """The name of a table as Parquet."""
    return f"tables/{table}.parquet"


class SourceList:
    """Collects the sources of jobs that go by one at a time."""

    def __init__(self) -> None:
        self._jobs = 0
        self._content = hashlib.sha256()
        self._digests: set[str] = set()
        self._code: set[str] = set()
        self._bases: dict[str, set[str]] = defaultdict(set)

    def add(self, job: FrozenJob) -> None:
        """Note where one job's result comes from."""
        self._jobs += 1
        self._content.update(job.model_dump_json().encode() + b"\n")
        self._digests.add(job.spec_digest)
        if job.environment is not None:
            self._code.add(job.environment.code_version)
        name, digest = (job.resolved_spec.get(key) for key in ("base_model", "base_digest"))
        if isinstance(name, str) and isinstance(digest, str):
            self._bases[name].add(digest)

    def found(self) -> Sources:
        """The sources of all that were added."""
        return Sources(
            jobs=self._jobs,
            content=self._content.hexdigest(),
            spec_digests=tuple(sorted(self._digests)),
            code_versions=tuple(sorted(self._code)),
            base_models={name: tuple(sorted(self._bases[name])) for name in sorted(self._bases)},
        )
