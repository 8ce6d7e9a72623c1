"""Jobs that are evaluated on other base models, from claim to result."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.folders import a_model_folder
from tests.job_rows import job
from tests.ledgers import WAYS, ledger_by
from tests.making import (
    a_base_model,
    a_claim,
    a_ledger,
    a_principal,
    a_replicate,
    an_adapt_spec,
    an_environment,
    an_evaluation,
)

from adaptlab.errors import InvalidSpec
from adaptlab.runs import events as measured
from adaptlab.specs.spec import ImportSpec
from adaptlab_db.tables import Job
from adaptlab_services.errors import ReportRefused
from adaptlab_services.jobs import control, jobs
from adaptlab_services.leases.leases import Ledger
from adaptlab_services.lifecycle import held_leases
from adaptlab_services.lifecycle.transitions import Change, move
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.results import results
from adaptlab_services.results.result_queries import Question, page
from adaptlab_services.results.scored_jobs import scored_jobs
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
OTHER = "other"
THREE = (b"one", b"two", b"three")
"""Contents of a base model that is not equal to the job's own, which has two seeds."""


@pytest.fixture(params=WAYS)
def ledger(
    request: pytest.FixtureRequest, sessions: Sessions, settings: Settings
) -> Iterator[Ledger]:
    with ledger_by(request.param, sessions, settings) as door:
        yield door


def asked(**changes: Any) -> Any:
    evaluation = {"samples": 16, "base_models": [OTHER]}
    return an_adapt_spec(**{"method": "frozen", "evaluation": evaluation, **changes})


def created(sessions: Sessions, **changes: Any) -> UUID:
    with sessions.begin() as session:
        return jobs.create(session, a_principal(session), asked(**changes)).job.id


def with_bases(sessions: Sessions, state: str = "succeeded") -> UUID:
    """Create two base models; return the job of the other one."""
    with sessions.begin() as session:
        a_base_model(session)
        return a_base_model(session, OTHER, state=state, contents=THREE)


# Waiting


def test_a_job_waits_until_the_other_base_model_is_ready(sessions: Sessions) -> None:
    maker = with_bases(sessions, state="running")
    waiting = created(sessions)
    assert job(sessions, waiting).state == "waiting"
    with sessions.begin() as session:
        move(session, [Job.id == maker], Change("succeeded"))
    assert job(sessions, waiting).state == "queued"


def test_a_job_ends_with_the_other_base_model_that_fails(sessions: Sessions) -> None:
    maker = with_bases(sessions, state="queued")
    waiting = created(sessions)
    with sessions.begin() as session:
        jobs.stop(session, a_principal(session), maker)
    assert (job(sessions, waiting).state, job(sessions, waiting).reason) == (
        "failed",
        "base_model_failed",
    )


def test_a_retry_waits_for_the_other_base_model_too(sessions: Sessions) -> None:
    with_bases(sessions, state="running")
    stopped = created(sessions)
    with sessions.begin() as session:
        jobs.stop(session, a_principal(session), stopped)
        again = control.retry(session, a_principal(session), stopped).job
    assert again.state == "waiting"


@pytest.mark.parametrize(
    ("state", "code"), [(None, "unknown_base_model"), ("failed", "base_model_failed")]
)
def test_a_base_model_that_is_not_there_is_refused(
    sessions: Sessions, state: str | None, code: str
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        if state is not None:
            a_base_model(session, OTHER, state=state, contents=THREE)
    with pytest.raises(InvalidSpec) as refused:
        created(sessions)
    (problem,) = refused.value.problems
    assert (problem.pointer, problem.code) == ("/evaluation/base_models/0", code)


# Claims


def test_a_claim_has_the_weights_of_the_other_base_models(
    sessions: Sessions, ledger: Ledger
) -> None:
    with_bases(sessions)
    created(sessions)
    claim = a_claim(ledger)
    (other,) = claim.inputs.others
    assert (other.name, other.folder) == (OTHER, None)
    assert len(other.bases) == 3
    fetched = [b"".join(ledger.fetch_artifact(claim, one.sha256)) for one in other.bases]
    assert tuple(fetched) == THREE
    assert len(claim.inputs.bases) == 2


def test_a_worker_that_cannot_read_the_other_folder_does_not_get_the_job(
    sessions: Sessions, tmp_path: Path
) -> None:
    a_model_folder(tmp_path / "lab" / "llama")
    roots = ModelRoots({"lab": tmp_path / "lab"})
    imported = ImportSpec.model_validate({"name": OTHER, "folder": "lab/llama"})
    with sessions.begin() as session:
        a_base_model(session)
        jobs.create(session, a_principal(session), imported, roots=roots)
    ledger = a_ledger(sessions)
    reader = ledger.register_worker("node", 1, ["cpu"], ["lab"])
    made = ledger.claim(reader, ["cpu"])
    assert made is not None
    ledger.finish(made)
    ledger.say_goodbye(reader)
    needing = created(sessions)
    without = ledger.register_worker("node", 1, ["cpu"], ["models"])
    assert ledger.claim(without, ["cpu"]) is None
    with sessions.begin() as session:
        assert jobs.get(session, needing).queue.unread_roots == ("lab",)
    claim = ledger.claim(ledger.register_worker("node", 1, ["cpu"], ["lab"]), ["cpu"])
    assert claim is not None
    assert claim.job_id == needing
    (other,) = claim.inputs.others
    assert other.folder is not None
    assert (other.bases, other.folder.folder) == ((), "lab/llama")


# Results


def reported(claim: held_leases.Claim, **changes: Any) -> list[measured.Event]:
    task = claim.resolved_spec.evaluation_tasks[0]
    elsewhere = {"base_model": OTHER, "task": task, **changes}
    return [
        measured.Started(environment=an_environment(), replicates=2),
        measured.ReplicatesDecided(
            replicates=(a_replicate(0, learning_rate=1e-3), a_replicate(1, learning_rate=1e-3))
        ),
        measured.Evaluated(evaluation=an_evaluation(0, task=task)),
        measured.Evaluated(evaluation=an_evaluation(0, **elsewhere, correct=4, outcomes="f000")),
        measured.Evaluated(
            evaluation=an_evaluation(0, **elsewhere, correct=2, outcomes="c000", attached=False)
        ),
        measured.NotCarried(base_model=OTHER, replicate=1, seed=1, reason="'ü' has no text"),
    ]


def test_scores_on_another_base_model_are_kept_apart(sessions: Sessions, ledger: Ledger) -> None:
    with_bases(sessions)
    job_id = created(sessions)
    claim = a_claim(ledger)
    for _ in range(2):  # a batch whose answer was lost is sent again
        ledger.record(claim, reported(claim), {})
    ledger.finish(claim)
    with sessions.begin() as session:
        kept = results.evaluations(session, job_id)
        shown = [(one.base_model, one.attached, one.correct) for one in kept.data]
        assert shown == [(None, True, 12), (OTHER, True, 4), (OTHER, False, 2)]
        assert results.outcomes(session, job_id, kept.data[1].id).booleans().count(True) == 4
        assert [(one.seed, one.reason) for one in kept.not_carried] == [(1, "'ü' has no text")]
        assert jobs.get(session, job_id).accuracy == 12 / 16
        scored = scored_jobs(session, [job_id])[job_id]
    assert [one.correct for one in scored.evaluations] == [12]
    assert [(one.attached, one.correct) for one in scored.carried[OTHER]] == [(True, 4), (False, 2)]
    assert scored.base_scores == ()


@pytest.mark.parametrize("others", [(OTHER,), (OTHER, "third")])
def test_transfer_is_queried_for_seeds_with_all_scores(
    sessions: Sessions, others: tuple[str, ...]
) -> None:
    with_bases(sessions)
    with sessions.begin() as session:
        a_base_model(session, "third", contents=(b"four",))
    evaluation = {"samples": 16, "base_models": others}
    created(sessions, evaluation=evaluation)
    ledger = a_ledger(sessions)
    claim = a_claim(ledger)
    third = {"task": claim.resolved_spec.evaluation_tasks[0], "base_model": "third"}
    scores = [
        measured.Evaluated(evaluation=an_evaluation(0, **third, correct=1, outcomes="8000")),
        measured.Evaluated(
            evaluation=an_evaluation(0, **third, correct=0, outcomes="0000", attached=False)
        ),
    ]
    ledger.record(claim, [*reported(claim), *(scores if len(others) > 1 else ())], {})
    ledger.finish(claim)
    names = ("transfer_accuracy", "transfer_change", "accuracy")
    fields = tuple(f"metrics.{name}.{one}" for name in names for one in ("n", "mean"))
    with sessions.begin() as session:
        (row,) = page(session, Question("results", 'kind = "adapt"', fields=fields)).data
    share = 5 / 32 if len(others) > 1 else 4 / 16
    change = 3 / 32 if len(others) > 1 else 2 / 16
    assert [*row.values()] == [1, share, 1, change, 1, 12 / 16]


def test_a_seed_without_a_score_on_one_base_model_has_no_transfer(sessions: Sessions) -> None:
    with_bases(sessions)
    with sessions.begin() as session:
        a_base_model(session, "third", contents=(b"four",))
    created(sessions, evaluation={"samples": 16, "base_models": [OTHER, "third"]})
    ledger = a_ledger(sessions)
    claim = a_claim(ledger)
    ledger.record(claim, reported(claim), {})
    ledger.finish(claim)
    with sessions.begin() as session:
        fields = ("metrics.transfer_accuracy.n",)
        question = Question("results", 'kind = "adapt"', fields=fields)
        (row,) = page(session, question).data
    assert row == {"metrics.transfer_accuracy.n": None}


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"base_model": "tiny"}, "/events/3/evaluation/base_model"),
        ({"task": {"name": "copy"}}, "/events/3/evaluation/task"),
    ],
)
def test_scores_on_a_base_model_that_the_job_does_not_have_are_refused(
    sessions: Sessions, ledger: Ledger, changes: dict[str, Any], pointer: str
) -> None:
    with_bases(sessions)
    job_id = created(sessions)
    claim = a_claim(ledger)
    with pytest.raises(ReportRefused) as refused:
        ledger.record(claim, reported(claim, **changes), {})
    assert pointer in {problem.pointer for problem in refused.value.problems}
    with sessions.begin() as session:
        assert results.evaluations(session, job_id).data == ()
