"""Members of a bundle: claim, evidence, jobs, and a manifest of all.

Members have fixed names. `TEXTS` and `TABLES` follow from the claim and the evidence, so a check
detects changes by writing them again.
"""

import hashlib
from collections import defaultdict
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, ValidationError

from adaptlab.comparisons.table_comparison import TableComparison, TableWarning
from adaptlab.reproductions.recipe import RecipeRef
from adaptlab.runs.events import Environment
from adaptlab.statistics import Scores
from adaptlab.studies.study import StudySpec
from adaptlab.values import Value

FORMAT = 11
"""The version of this layout and all of its texts; bundles of other versions are not checked."""

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
"""The members of every bundle, except the manifest and the plots."""
MOST_PLOTS = 120
"""Plots of a bundle; further tables and cells have none, also with `--render`."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class FrozenStudy(Value):
    """The frozen study; `resolved` is its spec with every default.

    Times are in UTC, in the form of ISO 8601.
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
    """A job of the study: its spec, its resolved spec and its environment."""

    id: UUID
    kind: str
    state: str
    attempt: int
    spec: dict[str, object]
    resolved_spec: dict[str, object]
    spec_digest: str
    environment: Environment | None


class StudyClaim(Value):
    """The claim of a study: warnings, then a table per base model and task.

    `partial` is true if jobs failed or were cancelled, so that scores are missing permanently.
    """

    partial: bool
    level: Annotated[float, Field(gt=0, lt=1)]
    margin: Annotated[float, Field(ge=0, le=1)]
    warnings: tuple[TableWarning, ...]
    tables: tuple[TableComparison, ...]


class CountedJob(Value):
    """A job whose scores count, with its label in warnings about settings."""

    label: str
    job: UUID


class TableEvidence(Value):
    """The data behind one table: outcomes of its rows, and comparable jobs.

    `reference` is the method that the cheapest method is compared with.
    """

    base_model: str
    task: str
    reference: str | None
    scores: Annotated[tuple[Scores, ...], Field(max_length=1024)]
    jobs: tuple[CountedJob, ...]


class ClaimEvidence(Value):
    """The outcomes behind a claim, by table in the claim's order."""

    tables: Annotated[tuple[TableEvidence, ...], Field(max_length=1024)]


class Member(Value):
    """A file of the bundle."""

    name: str
    size: Annotated[int, Field(ge=0)]
    sha256: Sha256


class Sources(Value):
    """The provenance of a study's numbers, over all of its jobs.

    `content` is the SHA-256 of the content of `JOBS`. `code_versions` are the versions that
    computed results. `base_models` has the digests of the adapted weights by name of the base.
    """

    jobs: int
    content: Sha256
    spec_digests: tuple[str, ...]
    code_versions: tuple[str, ...]
    base_models: dict[str, tuple[str, ...]]


class Manifest(Value):
    """The members of a bundle and the versions of the software that wrote it."""

    format: int
    study: str
    sources: Sources
    software: dict[str, str]
    members: tuple[Member, ...]


def resolved_study(spec: dict[str, object]) -> dict[str, object]:
    """Return the spec of a study with every default, empty if it is invalid."""
    try:
        return StudySpec.model_validate(spec).model_dump(mode="json")
    except ValidationError:
        return {}


def content_digests(*documents: tuple[str, Value]) -> dict[str, str]:
    """Return the SHA-256 of documents by the names of their members."""
    return {
        name: hashlib.sha256(value.model_dump_json().encode()).hexdigest()
        for name, value in documents
    }


def csv_name(table: str) -> str:
    """Return the name of a table's CSV file."""
    return f"tables/{table}.csv"


def parquet_name(table: str) -> str:
    """Return the name of a table's Parquet file."""
    return f"tables/{table}.parquet"


class SourceList:
    """Collector of the sources of jobs, one job at a time."""

    def __init__(self) -> None:
        self._jobs = 0
        self._content = hashlib.sha256()
        self._digests: set[str] = set()
        self._code: set[str] = set()
        self._bases: dict[str, set[str]] = defaultdict(set)

    def add(self, job: FrozenJob) -> None:
        """Add the sources of one job."""
        self._jobs += 1
        self._content.update(job.model_dump_json().encode() + b"\n")
        self._digests.add(job.spec_digest)
        if job.environment is not None:
            self._code.add(job.environment.code_version)
        name, digest = (job.resolved_spec.get(key) for key in ("base_model", "base_digest"))
        if isinstance(name, str) and isinstance(digest, str):
            self._bases[name].add(digest)

    def found(self) -> Sources:
        """Return the sources of all added jobs."""
        return Sources(
            jobs=self._jobs,
            content=self._content.hexdigest(),
            spec_digests=tuple(sorted(self._digests)),
            code_versions=tuple(sorted(self._code)),
            base_models={name: tuple(sorted(self._bases[name])) for name in sorted(self._bases)},
        )
