"""Jobs of theory checks: who waits for what, and that reports are written once, under the fence."""

from typing import Any

import pytest
from pydantic import TypeAdapter
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_claim, a_ledger, a_pretrain_document, a_principal

from adaptlab.errors import InvalidSpec
from adaptlab.results import TheoryChecked
from adaptlab.spec import AnySpec, JobSpec
from adaptlab.theory_report import Check
from adaptlab_services import events, jobs, results
from adaptlab_services.errors import LeaseLost
from adaptlab_services.job_views import JobView

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
        assert [j.id for j in jobs.page(session, filter_text="kind = theory").data] == [job.id]
        preview = jobs.preview(session, SPECS.validate_python(THEOREMS))
    assert preview.spec_digest == job.spec_digest


def test_a_job_of_a_base_model_waits_for_it(sessions: Sessions) -> None:
    create(sessions, a_pretrain_document(name="base"))
    waiting = create(sessions, {"kind": "theory", "checks": ["identities"], "base_model": "base"})
    assert (waiting.state, waiting.base_model) == ("waiting", "base")
    ledger = a_ledger(sessions)
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
    ledger = a_ledger(sessions)
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
    ledger = a_ledger(sessions)
    claim = a_claim(ledger)
    ledger.finish(claim)
    with pytest.raises(LeaseLost):
        ledger.record(claim, told(GOOD), {})
    with sessions.begin() as session:
        assert results.theory(session, job.id).data == ()
