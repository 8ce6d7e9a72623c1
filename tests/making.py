"""Objects that tests need, with defaults for everything else.

Specs are small: they resolve and train in no time. Rows are written as the services write them.
"""

import io
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
from pydantic import TypeAdapter
from safetensors.numpy import save
from sqlalchemy import exists, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.code_version import code_version
from adaptlab.runs import events as results
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import (
    ResolvedAdapt,
    ResolvedPretrain,
    readable,
    spec_digest,
    write_resolved,
)
from adaptlab.specs.spec import AdaptSpec, AnySpec, JobSpec, PretrainSpec, ResolvedSpec
from adaptlab.studies.study import StudySpec
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import (
    AttemptRow,
    BaseModel,
    CheckpointRow,
    Job,
    Membership,
    Project,
    Token,
    User,
)
from adaptlab_services.leases import recording
from adaptlab_services.leases.leases import NO_ARTIFACTS, DatabaseLedger, Ledger
from adaptlab_services.lifecycle.held_leases import Claim, Lease
from adaptlab_services.people.access import DEFAULT_PROJECT
from adaptlab_services.people.tokens import SCOPES, Principal, create_token

BASE = "tiny-sort"
ENDED = ("succeeded", "failed", "cancelled")
_LEASE_SECONDS = 30


def a_pretrain_document(**changes: Any) -> dict[str, Any]:
    """The JSON of a small pretraining job, with members replaced or added."""
    return {
        "kind": "pretrain",
        "name": BASE,
        "family": {"name": "minigpt", "width": 8, "layers": 1, "heads": 1},
        "task": {"name": "sort_ascending", "length": 3, "alphabet": 4},
        "training": {"steps": 4, "batch_size": 4},
        "seeds": 2,
        "evaluation": {"samples": 16, "shown": 16},
    } | changes


def an_adapt_document(**changes: Any) -> dict[str, Any]:
    """The JSON of a small adaptation of `BASE`, with members replaced."""
    return {
        "kind": "adapt",
        "base_model": BASE,
        "task": {"name": "sort_descending", "length": 3, "alphabet": 4},
        "method": {"name": "prefix_tuning"},
        "budget": {"trainable_parameters": 16},
        "training": {"steps": 4, "batch_size": 4},
        "seeds": 2,
        "evaluation": {"samples": 16, "shown": 16},
    } | changes


def a_study_document(**changes: Any) -> dict[str, Any]:
    """The JSON of a small study of `BASE`, with members replaced."""
    return {
        "name": "small",
        "base_models": [BASE],
        "tasks": [{"name": "sort_descending", "length": 3, "alphabet": 4}],
        "methods": ["frozen", "full_finetuning", "prefix_tuning", "lora"],
        "budgets": [32, 64],
        "seeds": 2,
        "training": {"steps": 4, "batch_size": 4},
        "tuning": {"trials": 2},
        "evaluation": {"samples": 16, "shown": 16},
    } | changes


def a_study_spec(**changes: Any) -> StudySpec:
    """A small study of the base model `BASE`."""
    return StudySpec.model_validate(a_study_document(**changes))


def a_pretrain_spec(**changes: Any) -> PretrainSpec:
    """A small pretraining job."""
    spec = _job_spec(a_pretrain_document(**changes))
    assert isinstance(spec, PretrainSpec)
    return spec


def an_adapt_spec(**changes: Any) -> AdaptSpec:
    """A small adaptation of the base model `BASE`."""
    spec = _job_spec(an_adapt_document(**changes))
    assert isinstance(spec, AdaptSpec)
    return spec


def base_facts(pretraining: PretrainSpec | None = None) -> BaseModelFacts:
    """What is known of the base model that a pretraining job makes."""
    pretraining = pretraining or a_pretrain_spec()
    resolved = resolve(pretraining, None)
    return BaseModelFacts(
        name=pretraining.name,
        digest=spec_digest(resolved),
        family=resolved.family,
        task=resolved.task,
        replicates=len(resolved.seeds),
    )


def a_resolved_spec(spec: PretrainSpec | AdaptSpec | None = None) -> ResolvedSpec:
    """A resolved spec as JSON; adaptations use `base_facts()`."""
    return write_resolved(a_resolved_job(spec))


def a_resolved_job(
    spec: PretrainSpec | AdaptSpec | None = None,
) -> ResolvedPretrain | ResolvedAdapt:
    """The same with its plug-ins."""
    spec = spec or an_adapt_spec()
    return resolve(spec, base_facts() if isinstance(spec, AdaptSpec) else None)


def a_user(session: Session, name: str = "ada") -> int:
    """The id of the user, created as an operator of `default` if new."""
    key = ("user", name)  # looked up once in a session: two of three statements of tests did
    if key not in session.info:
        known = session.scalars(select(User.id).where(User.name == name)).one_or_none()
        session.info[key] = _new_user(session, name) if known is None else known
    return session.info[key]


def _new_user(session: Session, name: str) -> int:
    made = session.scalars(insert(User).values(name=name).returning(User.id)).one()
    a_member(session, made)
    return made


def a_project(session: Session, name: str = DEFAULT_PROJECT) -> int:
    """The id of the project of that name, made if there is none."""
    key = ("project", name)
    if key not in session.info:
        known = session.scalars(select(Project.id).where(Project.name == name)).one_or_none()
        new = insert(Project).values(name=name).returning(Project.id)
        session.info[key] = session.scalars(new).one() if known is None else known
    return session.info[key]


def a_member(
    session: Session, user_id: int, project: str = DEFAULT_PROJECT, role: str = "operator"
) -> None:
    """Make somebody a member of a project, unless they are one already."""
    row = {"user_id": user_id, "project_id": a_project(session, project), "role": role}
    session.execute(insert(Membership).values(row).on_conflict_do_nothing())
    lost = ~exists().where(
        Membership.user_id == user_id, Membership.project_id == User.usual_project_id
    )
    values = {"usual_project_id": row["project_id"]}
    session.execute(update(User).where(User.id == user_id, lost).values(values))


def a_token(session: Session, name: str = "ada", scopes: Sequence[str] = SCOPES) -> str:
    """A new token of that user, who becomes an admin with scope `admin`."""
    user_id = a_user(session, name)
    if "admin" in scopes:
        session.execute(update(User).where(User.id == user_id).values(is_admin=True))
    return create_token(session, user_id, "for a test", scopes)


def a_principal(session: Session, name: str = "ada", scopes: Sequence[str] = SCOPES) -> Principal:
    """That user, with a new token."""
    a_token(session, name, scopes)
    token_id = session.scalars(select(Token.id).order_by(Token.id.desc()).limit(1)).one()
    return Principal(
        user_id=a_user(session, name),
        name=name,
        token_id=token_id,
        scopes=tuple(scopes),
        is_admin="admin" in scopes,
    )


def a_job(
    session: Session,
    spec: PretrainSpec | AdaptSpec | None = None,
    *,
    state: str = "queued",
    owner: str = "ada",
    project: str = DEFAULT_PROJECT,
    **columns: Any,
) -> UUID:
    """The id of a new job in any state; by default an adaptation.

    `columns` replaces values of its row. A job that has started also has its attempt.
    """
    spec = spec or an_adapt_spec()
    resolved = a_resolved_spec(spec)
    has_started = state in ("running", "paused", "succeeded", "failed")
    job = Job(
        **{
            "id": uuid.uuid4(),
            "owner_id": a_user(session, owner),
            "project_id": a_project(session, project),
            "state": state,
            "kind": spec.kind,
            "base_model": resolved.base_model,
            "family": str(resolved.family["name"]),
            "task": None if resolved.task is None else str(resolved.task["name"]),
            "method": None if resolved.method is None else str(resolved.method["name"]),
            "budget_requested": resolved.budget.requested,
            "trainable_parameters": resolved.budget.trainable_parameters,
            "spec": spec.model_dump(mode="json", exclude_unset=True),
            "resolved_spec": resolved.model_dump(mode="json"),
            "spec_digest": spec_digest(resolved),
            "labels": dict(spec.labels),
            "queue": spec.resources.queue,
            "priority": spec.resources.priority,
            "max_seconds": spec.resources.max_seconds,
            "total_steps": resolved.training.steps,
            "attempt": int(has_started),
            "started_at": func.clock_timestamp() if has_started else None,
            "finished_at": func.clock_timestamp() if state in ENDED else None,
            "lease_expires_at": _lease_end() if state == "running" else None,
        }
        | columns
    )
    session.add(job)
    session.flush()
    if has_started:
        session.add(_an_attempt(job.id, job.attempt, state))
        session.flush()
    return job.id


def a_base_model(
    session: Session,
    name: str = BASE,
    *,
    state: str = "succeeded",
    owner: str = "ada",
    project: str = DEFAULT_PROJECT,
    contents: Sequence[bytes] = (b"weights of seed 0", b"weights of seed 1"),
    **columns: Any,
) -> UUID:
    """The id of a pretraining job, with one checkpoint per `contents`."""
    spec = a_pretrain_spec(name=name, seeds=len(contents))
    job_id = a_job(session, spec, state=state, owner=owner, project=project, **columns)
    session.add(BaseModel(project_id=a_project(session, project), name=name, job_id=job_id))
    if state == "succeeded":
        for replicate, content in enumerate(contents):
            session.add(_a_base_checkpoint(session, job_id, replicate, content))
    session.flush()
    return job_id


def a_ledger(sessions: sessionmaker[Session], lease_seconds: float = 30) -> DatabaseLedger:
    """A worker's door to jobs and results."""
    return DatabaseLedger(sessions, lease_seconds)


def a_worker(ledger: Ledger, queues: Sequence[str] = ("cpu",)) -> UUID:
    """The id of a newly registered worker."""
    return ledger.register_worker("laptop", 4711, queues)


def a_claim(ledger: Ledger, queues: Sequence[str] = ("cpu",)) -> Claim:
    """The most urgent job, claimed by a new worker."""
    claim = ledger.claim(a_worker(ledger, queues), queues)
    assert claim is not None, "there is no job to claim"
    return claim


def an_environment(**changes: Any) -> results.Environment:
    """Where a run was computed."""
    return results.Environment(
        **{
            "device": "cpu",
            "precision": "float32",
            "compiled": False,
            "threads": 1,
            "torch_version": "2.13.0",
            "code_version": code_version(),
            "python_version": "3.11.7",
            "platform": "linux",
        }
        | changes
    )


def metric_points(
    steps: Sequence[int] = (1, 2, 3), name: str = "train_loss", replicate: int = 0
) -> tuple[results.MetricPoint, ...]:
    """A curve that falls."""
    return tuple(
        results.MetricPoint(replicate=replicate, name=name, step=step, value=1 / (1 + step))
        for step in steps
    )


def a_replicate(replicate: int = 0, **changes: Any) -> results.ReplicateResult:
    """How one seed and trial ended."""
    return results.ReplicateResult(
        **{
            "replicate": replicate,
            "seed": replicate,
            "trial": 0,
            **_first_trial(),
            "status": "completed",
            "selected": True,
            "final_loss": 0.25,
            "validation_accuracy": None,
            "steps": 4,
        }
        | changes
    )


@cache
def _first_trial() -> Mapping[str, Any]:
    """The learning rate and weight decay of an adaptation's first trial.

    Resolved once: made-up studies report thousands of replicates.
    """
    return a_resolved_spec().training.trials[0].model_dump()


def an_evaluation(replicate: int = 0, **changes: Any) -> results.Evaluation:
    """A score: by default 12 of 16 items right, the last four wrong."""
    return results.Evaluation(
        **{
            "replicate": replicate,
            "seed": replicate,
            "task": {"name": "sort_descending", "length": 3, "alphabet": 4, "few_distinct": True},
            "split": "test",
            "correct": 12,
            "total": 16,
            "outcomes": "fff0",
        }
        | changes
    )


def items_shown(count: int = 16, **changes: Any) -> results.ItemsShown:
    """Test items of `an_adapt_document`, alike but for their first digit."""
    items = tuple(
        results.ShownItem(
            item=item,
            prompt=results.Excerpt(text=f"{item % 4} 0 1", characters=5),
            expected=results.AnswerText(text="1 0 0", characters=5),
        )
        for item in range(count)
    )
    task = an_evaluation().task
    return results.ItemsShown(**{"task_place": 0, "task": task, "items": items} | changes)


def answers_given(replicate: int = 0, right: int = 12, **changes: Any) -> results.AnswersGiven:
    """The answers to them, of which the first `right` of 16 are right."""
    answers = tuple(
        results.AnswerText(text="1 0 0" if item < right else f"3 3 {item % 4}", characters=5)
        for item in range(16)
    )
    given: dict[str, Any] = {
        "task_place": 0,
        "replicate": replicate,
        "seed": replicate,
        "answers": answers,
    }
    return results.AnswersGiven(**given | changes)


def an_attention_map(replicate: int = 0, **changes: Any) -> results.AttentionPatterns:
    """Patterns over five content positions and two learned ones.

    They have one sample, one layer and one head.
    """
    return results.AttentionPatterns(
        **{
            "replicate": replicate,
            "seed": replicate,
            "source": "adapted",
            "shape": (1, 1, 1, 5, 7),
            "learned_positions": 2,
            "target_start": 2,
            "tokens": ((2, 0, 3, 3, 2),),
            "predictions": ((3, 2, 0),),
            "summaries": (a_summary(),),
        }
        | changes
    )


def a_summary(layer: int = 0, head: int = 0, **changes: Any) -> results.AttentionSummary:
    """The figures of one head."""
    return results.AttentionSummary(
        **{
            "layer": layer,
            "head": head,
            "entropy": 1.25,
            "learned_mass": 0.5,
            "divergence": 0.0,
            "relative_deviation": 0.0,
        }
        | changes
    )


def a_checkpoint(replicate: int = 0, **changes: Any) -> results.Checkpoint:
    """The trained tensors of one replicate."""
    return results.Checkpoint(
        **{
            "replicate": replicate,
            "seed": replicate,
            "kind": "adapter",
            "parameters": 16,
            "tensors": {"blocks.0.attn.input": (2, 8)},
        }
        | changes
    )


def weights_content(shapes: Mapping[str, Sequence[int]] | None = None, fill: float = 0.0) -> bytes:
    """A checkpoint's file; by default that of `a_checkpoint()`."""
    shapes = a_checkpoint().tensors if shapes is None else shapes
    return save({name: np.full(shape, fill, np.float32) for name, shape in shapes.items()})


def map_content(shape: Sequence[int] | None = None, fill: float = 0.0) -> bytes:
    """An attention map's file; by default that of `an_attention_map()`."""
    file = io.BytesIO()
    np.save(file, np.full(an_attention_map().shape if shape is None else shape, fill, np.float16))
    return file.getvalue()


class MadeUpLedger(DatabaseLedger):
    """A ledger that accepts reports that no run could make.

    What arrives in earnest is held against the job's spec: see `tests/services/test_reports.py`.
    """

    def record(
        self,
        lease: Lease,
        events: Sequence[results.Event],
        artifacts: Mapping[Path, str] = NO_ARTIFACTS,
    ) -> None:
        """Write what a test has made up."""
        with self._unit_of_work() as session:
            recording.write_as_told(session, lease, events, artifacts, lambda *_: None)

    def finish(self, lease: Lease) -> tuple[str, ...]:
        """Succeed, with checkpoints for a base model that has none."""
        if isinstance(lease, Claim) and lease.resolved_spec.kind == "pretrain":
            with self._sessions() as session:
                there = session.scalars(
                    select(CheckpointRow.id).where(CheckpointRow.job_id == lease.job_id).limit(1)
                ).one_or_none()
            if there is None:
                keep_checkpoints(self, lease)
        return super().finish(lease)


def a_made_up_ledger(sessions: sessionmaker[Session], lease_seconds: float = 30) -> MadeUpLedger:
    """A worker's door for results that a test has made up."""
    return MadeUpLedger(sessions, lease_seconds)


def keep_checkpoints(ledger: Ledger, claim: Claim) -> None:
    """Report a checkpoint per seed of a base model, as a run does."""
    for written, content in checkpoints_of(claim.resolved_spec):
        sha256 = ledger.put_artifact(claim, [content]).sha256
        ledger.record(claim, [written], {written.path: sha256})


def checkpoints_of(spec: ResolvedSpec) -> Iterator[tuple[results.CheckpointWritten, bytes]]:
    """The checkpoints of a base model that a job makes, with their files."""
    shapes = {name: one.shape for name, one in family_shape(readable(spec).family).tensors.items()}
    for place, seed in enumerate(spec.seeds):
        checkpoint = a_checkpoint(
            place,
            seed=seed,
            kind="base_model",
            tensors=shapes,
            parameters=sum(map(math.prod, shapes.values())),
        )
        path = Path(f"base_model-{place}.safetensors")
        written = results.CheckpointWritten(checkpoint=checkpoint, path=path)
        yield written, weights_content(shapes, seed)


def _job_spec(document: Mapping[str, Any]) -> PretrainSpec | AdaptSpec:
    spec = _any_spec().validate_python(document)
    assert isinstance(spec, PretrainSpec | AdaptSpec)
    return spec


@cache
def _any_spec() -> TypeAdapter[AnySpec]:
    return TypeAdapter(JobSpec)


def _lease_end() -> Any:
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, _LEASE_SECONDS)


def _an_attempt(job_id: UUID, attempt: int, state: str) -> AttemptRow:
    return AttemptRow(
        job_id=job_id,
        attempt=attempt,
        worker_id=uuid.uuid4(),
        ended_at=None if state == "running" else func.clock_timestamp(),
        outcome=None if state == "running" else state,
    )


def _a_base_checkpoint(
    session: Session, job_id: UUID, replicate: int, content: bytes
) -> CheckpointRow:
    return CheckpointRow(
        job_id=job_id,
        attempt=1,
        replicate=replicate,
        seed=replicate,
        kind="base_model",
        artifact_sha256=ArtifactStore(session).write([content]).sha256,
        parameters=1,
        tensors={"embed.weight": [6, 8]},
    )
