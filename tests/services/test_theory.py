"""Jobs of theory checks: waiting, and reports written once."""

from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import TypeAdapter
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    a_base_model,
    a_checkpoint,
    a_claim,
    a_job,
    a_made_up_ledger,
    a_pretrain_document,
    a_principal,
    an_adapt_document,
)

from adaptlab.errors import InvalidSpec
from adaptlab.runs.events import CheckpointWritten, TheoryChecked
from adaptlab.runs.inputs import AdapterFile, InputFile
from adaptlab.runs.theory_report import Check
from adaptlab.specs.spec import AnySpec, JobSpec
from adaptlab_answers.jobs import JobView
from adaptlab_services.errors import LeaseLost
from adaptlab_services.jobs import jobs, lists
from adaptlab_services.jobs.lists import JobQuery
from adaptlab_services.lifecycle import events
from adaptlab_services.results import results

Sessions = sessionmaker[Session]
THEOREMS = {"kind": "theory", "checks": [{"name": "theorems"}]}
SPECS: TypeAdapter[AnySpec] = TypeAdapter(JobSpec)
GOOD = Check.at_most("equation-6.random-1", "Equation 6.", 1e-16, 1e-12, layers=(1, 2.5), of="q")
BAD = Check.at_least("capacity", "Section 3.", 1, 2)


def create(sessions: Sessions, document: dict[str, Any]) -> JobView:
    with sessions.begin() as session:
        return jobs.create(session, a_principal(session), SPECS.validate_python(document)).job


def told(*checks: Check) -> tuple[TheoryChecked, ...]:
    return tuple(TheoryChecked(place=place, check=check) for place, check in enumerate(checks))


def test_a_job_without_a_base_model_is_queued_and_found(sessions: Sessions) -> None:
    job = create(sessions, THEOREMS)
    assert (job.kind, job.state, job.task, job.method) == ("theory", "queued", None, None)
    assert job.spec == THEOREMS
    assert job.budget.trainable_parameters == 0
    with sessions.begin() as session:
        assert [j.id for j in lists.page(session, JobQuery("kind = theory")).data] == [job.id]
        preview = jobs.preview(session, SPECS.validate_python(THEOREMS))
    assert preview.spec_digest == job.spec_digest


def test_a_job_of_a_base_model_waits_for_it(sessions: Sessions) -> None:
    create(sessions, a_pretrain_document(name="base"))
    waiting = create(sessions, {"kind": "theory", "checks": ["identities"], "base_model": "base"})
    assert (waiting.state, waiting.base_model) == ("waiting", "base")
    ledger = a_made_up_ledger(sessions)
    assert ledger.finish(a_claim(ledger)) == ("cpu",)
    claim = a_claim(ledger)
    assert (claim.job_id, claim.resolved_spec.kind) == (waiting.id, "theory")


@pytest.mark.parametrize("base", [None, "nobody"])
def test_a_base_model_that_is_needed_must_be_there(sessions: Sessions, base: str | None) -> None:
    with pytest.raises(InvalidSpec) as caught:
        create(sessions, {"kind": "theory", "checks": ["identities"], "base_model": base})
    assert [problem.pointer for problem in caught.value.problems] == ["/base_model"]


def test_reports_are_written_as_they_come_and_once(sessions: Sessions) -> None:
    job = create(sessions, THEOREMS)
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    first, second = told(GOOD, BAD)
    ledger.record(claim, [first], {})
    ledger.record(claim, [first, second], {})
    with sessions.begin() as session:
        found = results.theory(session, job.id)
        news = [e for e in events.after(session, job.id, after=0).data if e.type == "theory"]
    assert (found.data, found.attempt) == ((GOOD, BAD), 1)
    assert [e.data for e in news] == [{"count": 1}, {"count": 2}]


def test_a_report_after_the_lease_is_refused(sessions: Sessions) -> None:
    job = create(sessions, THEOREMS)
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    ledger.finish(claim)
    with pytest.raises(LeaseLost):
        ledger.record(claim, told(GOOD), {})
    with sessions.begin() as session:
        assert results.theory(session, job.id).data == ()


def measuring(*adaptations: UUID, **changes: Any) -> dict[str, Any]:
    return {"kind": "theory", "checks": ["relative_attention"], "adaptation": adaptations} | changes


def refused(sessions: Sessions, document: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(InvalidSpec) as caught:
        create(sessions, document)
    return [(problem.pointer, problem.code) for problem in caught.value.problems]


def test_an_adaptation_is_waited_for_and_its_chosen_tensors_come_with_the_claim(
    sessions: Sessions,
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
    adapted = create(sessions, an_adapt_document(seeds=3, tuning={"trials": 2}))
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    waiting = create(sessions, measuring(adapted.id))
    assert (waiting.state, waiting.base_model) == ("waiting", adapted.base_model)
    (known,) = waiting.resolved_spec.adaptations
    assert (known.job, known.digest, known.seeds) == (adapted.id, adapted.spec_digest, (0, 1, 2))
    files = {Path(f"{seed}"): ledger.put_artifact(claim, [b"%d" % seed]).sha256 for seed in (0, 2)}
    written = [
        CheckpointWritten(
            checkpoint=a_checkpoint(replicate=2 * int(p.name), seed=int(p.name)), path=p
        )
        for p in files
    ]
    ledger.record(claim, written, files)  # seed 1 diverged
    assert ledger.finish(claim) == ("cpu",)
    measures = a_claim(ledger)
    assert measures.job_id == waiting.id
    assert len(measures.inputs.bases) == 2
    first, third = (
        AdapterFile(adaptation=0, seed=seed, tensors=InputFile(sha256=sha256))
        for seed, sha256 in zip((0, 2), files.values(), strict=True)
    )
    assert measures.inputs.adapters == (first, third)
    create(sessions, measuring(adapted.id, replicates=2))
    assert a_claim(ledger).inputs.adapters == (first,), "of seeds 0 and 1"


def test_one_that_is_there_is_not_waited_for(sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        done = a_job(session, state="succeeded")
        running = a_job(session, state="running")
    assert create(sessions, measuring(done, replicates=1)).state == "queued"
    assert create(sessions, measuring(done, running)).state == "waiting"


def test_what_is_no_adaptation_is_refused(sessions: Sessions) -> None:
    with sessions.begin() as session:
        base = a_base_model(session)
        lost = [a_job(session, state=state) for state in ("failed", "cancelled")]
        done = a_job(session, state="succeeded")
    assert refused(sessions, measuring(uuid4())) == [("/adaptation", "unknown_job")]
    assert refused(sessions, measuring(base)) == [("/adaptation", "not_an_adaptation")]
    assert refused(sessions, measuring(*lost)) == [("/adaptation", "adaptation_failed")] * 2
    another = refused(sessions, measuring(done, base_model="another"))
    assert another == [("/base_model", "another_base_model")]
