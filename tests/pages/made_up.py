"""Jobs in every state, written through the ledger, without training."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

import numpy as np
from pydantic import TypeAdapter
from sqlalchemy.orm import Session, sessionmaker
from tests.making import MadeUpLedger, an_environment

from adaptlab.plugins.registry import as_json
from adaptlab.runs.events import (
    AttentionCaptured,
    AttentionPatterns,
    AttentionSource,
    AttentionSummary,
    Checkpoint,
    CheckpointWritten,
    Evaluated,
    Evaluation,
    Event,
    Finished,
    MetricPoint,
    Metrics,
    Progress,
    ReplicateResult,
    ReplicatesDecided,
    Started,
    Usage,
)
from adaptlab.specs.resolved import readable, scored_tasks
from adaptlab.specs.spec import AnySpec, JobSpec
from adaptlab_answers.jobs import JobView
from adaptlab_services.jobs import jobs
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.people.tokens import Principal

SPEC: TypeAdapter[AnySpec] = TypeAdapter(JobSpec)
STEPS = 1000
PRETRAINING: dict[str, object] = {
    "kind": "pretrain",
    "name": "sort-asc-1l",
    "family": {"name": "minigpt", "layers": 2, "heads": 2, "width": 96},
    "task": "sort_ascending",
    "training": {"steps": STEPS},
    "seeds": 3,
    "evaluation": {"samples": 1000},
    "capture": {"attention": {"samples": 2}},
}
ADAPTATION: dict[str, object] = {
    "kind": "adapt",
    "base_model": "sort-asc-1l",
    "task": "sort_descending",
    "method": "prefix_tuning",
    "budget": 400,
    "training": {"steps": STEPS},
    "evaluation": {"tasks": ["sort_ascending", "sort_descending"], "samples": 1000},
    "capture": {"attention": {"samples": 2}},
}
BASE_ALONE = {"sort_ascending": 0.991, "sort_descending": 0.002}
LAYERS, HEADS, LENGTH = 2, 2, 19
QUESTION = (2, 6, 0, 1, 4, 6, 3, 0, 1, 2)
ENVIRONMENT = an_environment(threads=2, code_version="0.1.0")


USAGE = Usage(
    training_seconds=83.0,
    training_steps=STEPS,
    evaluation_seconds=4.25,
    peak_memory_bytes=5 * 2**28,
    base_memory_bytes=2**28,
)


class MadeUpWorker:
    """A stand-in for a worker: claims, and reports invented results."""

    def __init__(self, sessions: sessionmaker[Session], principal: Principal) -> None:
        self._sessions = sessions
        self._principal = principal
        self._ledger = MadeUpLedger(sessions, lease_seconds=3600)
        self._id: UUID | None = None

    def come(self, *queues: str) -> None:
        """Be a live worker of these queues."""
        self._id = self._ledger.register_worker("made-up", 1, queues or ("cpu",))

    def submit(self, spec: dict[str, object], **changes: object) -> JobView:
        made = SPEC.validate_python(spec | changes)
        with self._sessions.begin() as session:
            return jobs.create(session, self._principal, made).job

    def claim(self, queue: str = "cpu") -> Claim:
        assert self._id is not None
        claim = self._ledger.claim(self._id, [queue])
        assert claim is not None
        replicates = len(claim.resolved_spec.seeds)
        self._ledger.record(claim, [Started(environment=ENVIRONMENT, replicates=replicates)])
        return claim

    def train(self, claim: Claim, upto: int, start: int = 0) -> None:
        points = tuple(
            MetricPoint(replicate=replicate, name=name, step=step, value=loss(step, replicate))
            for name, every in (("train_loss", 10), ("validation_loss", 50))
            for replicate in range(len(claim.resolved_spec.seeds))
            for step in range(every, upto + 1, every)
            if step > start
        )
        done = Progress(phase="training", step=upto, total=STEPS)
        self._ledger.record(claim, [done, Metrics(points=points)])

    def score(self, claim: Claim, *fractions: float) -> None:
        """The adapted model as given; the base knows only ascending order."""
        seeds = claim.resolved_spec.seeds
        tasks = [*map(as_json, scored_tasks(readable(claim.resolved_spec)))]
        told = [(task, True, share) for task, share in zip(tasks, fractions, strict=True)]
        if claim.resolved_spec.kind == "adapt":
            told += [(task, False, BASE_ALONE[str(task["name"])]) for task in tasks]
        scores = [
            Evaluated(evaluation=evaluation(replicate, seed, task, share, attached))
            for task, attached, share in told
            for replicate, seed in enumerate(seeds)
        ]
        decided = ReplicatesDecided(replicates=tuple(result(n, s) for n, s in enumerate(seeds)))
        self._ledger.record(claim, [decided, *scores])

    def decide(self, claim: Claim, results: tuple[ReplicateResult, ...]) -> None:
        """Report results of replicates, in place of those of `score`."""
        self._ledger.record(claim, [ReplicatesDecided(replicates=results)])

    def report(self, claim: Claim, events: Sequence[Event]) -> None:
        """Report any events."""
        self._ledger.record(claim, events)

    def attend(self, claim: Claim, learned: int = 0) -> None:
        adapted = claim.resolved_spec.kind == "adapt"
        for replicate, seed in enumerate(claim.resolved_spec.seeds):
            self._attend(claim, replicate, seed, "base", 0)
            if adapted:
                self._attend(claim, replicate, seed, "adapted", learned)

    def save(self, claim: Claim) -> None:
        stored = self._ledger.put_artifact(claim, [b"not really tensors"])
        is_base = claim.resolved_spec.kind == "pretrain"
        kind = "base_model" if is_base else "adapter"
        for number, seed in enumerate(claim.resolved_spec.seeds if is_base else (0,)):
            written = Checkpoint(
                replicate=number, seed=seed, kind=kind, parameters=384, tensors={"prefix": (2, 96)}
            )
            path = Path("made-up.safetensors")
            event = CheckpointWritten(checkpoint=written, path=path)
            self._ledger.record(claim, [event], {path: stored.sha256})

    def finish(self, claim: Claim) -> None:
        self._ledger.record(claim, [Finished(usage=USAGE)])
        self._ledger.finish(claim)

    def fail(self, claim: Claim, error: str) -> None:
        self._ledger.fail(claim, "diverged", error, retry=False)

    def release(self, claim: Claim) -> None:
        self._ledger.release(claim, "preempted")

    def complete(
        self, spec: dict[str, object], *fractions: float, learned: int = 0, **changes: object
    ) -> JobView:
        """A job from submission to success."""
        job = self.submit(spec, **changes)
        claim = self.claim()
        assert claim.job_id == job.id
        self.train(claim, STEPS)
        self.score(claim, *fractions)
        self.attend(claim, learned)
        self.save(claim)
        self.finish(claim)
        return job

    def _attend(
        self, claim: Claim, replicate: int, seed: int, source: AttentionSource, learned: int
    ) -> None:
        weights = pattern(seed, learned, moved=source == "adapted")
        file = io.BytesIO()
        np.save(file, weights)
        stored = self._ledger.put_artifact(claim, [file.getvalue()])
        captured = AttentionPatterns(
            replicate=replicate,
            seed=seed,
            source=source,
            shape=weights.shape,
            learned_positions=learned,
            target_start=len(QUESTION) - 1,
            tokens=((*QUESTION, *sorted(QUESTION)[:-1]),) * 2,
            predictions=(tuple(sorted(QUESTION)),) * 2,
            summaries=tuple(summaries(learned, source)),
        )
        path = Path(f"{source}-{replicate}.npy")
        event = AttentionCaptured(attention=captured, path=path)
        self._ledger.record(claim, [event], {path: stored.sha256})


def loss(step: int, replicate: int) -> float:
    return 0.04 + 2.1 * float(np.exp(-step / 220)) + 0.02 * replicate


def evaluation(
    replicate: int, seed: int, task: dict[str, object], fraction: float, attached: bool
) -> Evaluation:
    """A score that falls by 7 of 1000 items per seed; the base's by 2."""
    correct = max(0, min(1000, round(1000 * fraction) - (7 if attached else 2) * replicate))
    bits = np.packbits(np.arange(1000) < correct).tobytes().hex()
    return Evaluation(
        replicate=replicate,
        seed=seed,
        task=task,
        split="test",
        attached=attached,
        correct=correct,
        total=1000,
        outcomes=bits,
    )


def result(replicate: int, seed: int) -> ReplicateResult:
    return ReplicateResult(
        replicate=replicate,
        seed=seed,
        trial=0,
        learning_rate=0.01,
        weight_decay=0.0,
        initial_scale=1.0,
        status="completed",
        selected=True,
        final_loss=0.041 + 0.02 * replicate,
        validation_accuracy=None,
        steps=STEPS,
    )


def summaries(learned: int, source: AttentionSource) -> Iterator[AttentionSummary]:
    for layer in range(LAYERS):
        for head in range(HEADS):
            moved = layer > 0 and source == "adapted"
            yield AttentionSummary(
                layer=layer,
                head=head,
                entropy=1.412 - 0.2 * layer + 0.05 * head + 0.1 * moved,
                learned_mass=0.61 if learned else 0.0,
                divergence=0.0231 if moved else 0.0,
                relative_deviation=0.31 if moved else 3.1e-8 if source == "adapted" else 0.0,
            )


def pattern(seed: int, learned: int, *, moved: bool = False) -> np.ndarray:
    """Causal patterns; learned keys take 61 % of the attention.

    They have the shape [sample, layer, head, query, key].

    What has `moved` is as before in the first layer, and flatter in the others.
    """
    scores = np.random.default_rng(seed).normal(size=(2, LAYERS, HEADS, LENGTH, LENGTH)) * 1.5
    if moved:
        scores[:, 1:] *= 0.5
    scores[..., ~np.tri(LENGTH, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    if learned:
        taken = np.full((*weights.shape[:-1], learned), 0.61 / learned)
        weights = np.concatenate([taken, 0.39 * weights], axis=-1)
    return weights.astype(np.float16)


def some_jobs(worker: MadeUpWorker, labels: Sequence[str] = ()) -> dict[str, JobView]:
    """A handful of ordinary jobs, by what is special about each."""
    made = {"base": worker.complete(PRETRAINING, 0.991)}
    made["full"] = worker.complete(
        ADAPTATION, 0.004, 0.953, method="full_finetuning", budget={}, labels={"paper": "table-1"}
    )
    made["prefix"] = worker.complete(ADAPTATION, 0.62, 0.007, learned=2)
    made["failed"] = worker.submit(ADAPTATION, method={"name": "soft_prompt", "length": 4})
    worker.fail(worker.claim(), "Every replicate reached a loss that is not finite by step 120.")
    made["running"] = worker.submit(ADAPTATION, method={"name": "lora", "rank": 1}, budget={})
    worker.train(worker.claim(), 420)
    made["queued"] = worker.submit(ADAPTATION)
    made["unserved"] = worker.submit(ADAPTATION, resources={"queue": "gpu"})
    return made
