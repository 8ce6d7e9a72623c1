"""Studies on a real database: created, reused, extended, cancelled."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    BASE,
    a_base_model,
    a_claim,
    a_made_up_ledger,
    a_pretrain_document,
    a_study_spec,
    an_adapt_spec,
    an_environment,
)
from tests.watching import somebody_waits, statements, until

from adaptlab.errors import InvalidSpec
from adaptlab.runs.events import Started
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.studies.study import StudyChanges, StudyExtension, StudySpec
from adaptlab.studies.study_expansion import expand
from adaptlab.studies.study_plan import StudyPlan
from adaptlab_answers.studies import StudyCell, StudyView
from adaptlab_db.tables import Job, JobEvent
from adaptlab_services.errors import Absent, StateConflict
from adaptlab_services.jobs import jobs, lists
from adaptlab_services.jobs.lists import JobQuery
from adaptlab_services.people.tokens import Principal
from adaptlab_services.studies import studies, study_views
from adaptlab_services.studies.studies import Rules

Sessions = sessionmaker[Session]
RULES = Rules()


def create(sessions: Sessions, who: Principal, spec: StudySpec | None = None) -> StudyView:
    with sessions.begin() as session:
        return studies.create(session, who, spec or a_study_spec(), RULES).study


def extend(sessions: Sessions, who: Principal, study: str, **added: object) -> StudyView:
    extension = StudyExtension.model_validate(added)
    with sessions.begin() as session:
        return studies.extend(session, who, study, extension, RULES).study


def cancel(sessions: Sessions, who: Principal, study: str) -> StudyView:
    with sessions.begin() as session:
        return studies.cancel(session, who, study).study


def look(sessions: Sessions, study: str = "small") -> StudyView:
    with sessions.begin() as session:
        return studies.get(session, study)


def finish_all(sessions: Sessions, **environment: str) -> int:
    """Succeed with every job that can be claimed; returns how many those were."""
    started = Started(environment=an_environment(**environment), replicates=1)
    ledger, done = a_made_up_ledger(sessions), 0
    worker = ledger.register_worker("laptop", 4711, ["cpu"])
    while (claim := ledger.claim(worker, ["cpu"])) is not None:
        ledger.record(claim, [started])
        ledger.finish(claim)
        done += 1
    return done


def jobs_stored(sessions: Sessions) -> int:
    with sessions.begin() as session:
        return session.scalars(select(func.count()).select_from(Job)).one()


def cell(study: StudyView, method: str, budget: int = 64) -> StudyCell:
    (found,) = [c for c in study.cells if (c.method, c.budget) == (method, budget)]
    return found


def resolved(sessions: Sessions, job_id: UUID) -> ResolvedSpec:
    with sessions.begin() as session:
        return jobs.get(session, job_id).resolved_spec


def test_a_study_is_cells_of_jobs(sessions: Sessions, ada: Principal, base: None) -> None:
    study = create(sessions, ada)
    # Width 8, one layer: a row of a prefix is 8 parameters, a rank of LoRA at q and v is 32.
    assert [(c.method, c.budget, c.trainable_parameters, c.over_budget) for c in study.cells] == [
        ("frozen", 32, 0, False),
        ("full_finetuning", 32, 1024, True),
        ("prefix_tuning", 32, 32, False),
        ("lora", 32, 32, False),
        ("frozen", 64, 0, False),
        ("full_finetuning", 64, 1024, True),
        ("prefix_tuning", 64, 64, False),
        ("lora", 64, 64, False),
    ]
    # References have one job for both budgets.
    assert cell(study, "frozen", 32).jobs == cell(study, "frozen", 64).jobs
    assert study.jobs == {"queued": 6, "succeeded": 1}
    assert (study.state, study.terminal) == ("running", False)
    assert [(b.name, b.job.reused) for b in study.base_models] == [(BASE, True)]
    assert {job.reused for c in study.cells for job in c.jobs} == {False}
    assert finish_all(sessions) == 6
    ended = look(sessions)
    assert (ended.state, ended.jobs) == ("succeeded", {"succeeded": 7})
    assert {c.state for c in ended.cells} == {"succeeded"}


def test_jobs_of_a_study_are_jobs_like_others(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    study = create(sessions, ada, a_study_spec(labels={"paper": "table-1"}))
    (found,) = cell(study, "lora").jobs
    with sessions.begin() as session:
        job = jobs.get(session, found.id)
        events = session.scalars(select(JobEvent.type).where(JobEvent.job_id == found.id)).all()
        # What it was asked for can be posted again, and is the same job.
        again = an_adapt_spec(**job.spec)
        alone = jobs.create(session, ada, again).job
    assert events == ["queued"]
    assert job.labels == {"paper": "table-1"}
    assert job.budget.requested == 64
    assert alone.spec_digest == job.spec_digest
    assert alone.resolved_spec == job.resolved_spec


def test_a_preview_says_what_a_creation_makes_and_stores_nothing(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    with sessions.begin() as session:
        preview = studies.preview(session, a_study_spec(budgets=[16, 64]), RULES)
    assert jobs_stored(sessions) == 1
    assert [(s.method, s.budget, s.nearest) for s in preview.skipped] == [("lora", 16, (32,))]
    assert (preview.new_jobs, preview.reused_jobs, preview.passes) == (5, 0, 5)
    # Two seeds with two trials each, and one where there is nothing to tune.
    assert sorted(job.replicates for job in preview.jobs) == [2, 4, 4, 4, 4]
    assert preview.seconds == pytest.approx(
        sum(job.estimate.seconds for job in preview.jobs if job.estimate), abs=0.1
    )
    assert preview.base_models[0].is_new is False
    study = create(sessions, ada, a_study_spec(budgets=[16, 64]))
    made = {job.id for c in study.cells for job in c.jobs}
    with sessions.begin() as session:
        stored = {jobs.get(session, job_id).spec_digest for job_id in made}
    assert stored == {job.spec_digest for job in preview.jobs}
    assert study.skipped == preview.skipped


def test_a_study_is_not_over_before_the_scores_in_the_same_answer(
    sessions: Sessions, ada: Principal, base: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its jobs may end between two statements of the answer."""
    create(sessions, ada)
    rows = study_views._rows  # pyright: ignore[reportPrivateUsage]

    def and_then_all_end(session: Session, study_id: UUID) -> Any:
        found = rows(session, study_id)
        finish_all(sessions)
        return found

    monkeypatch.setattr(study_views, "_rows", and_then_all_end)
    seen = look(sessions)
    assert not seen.terminal
    assert not any(job.terminal for cell in seen.cells for job in cell.jobs)
    assert look(sessions).terminal


def test_what_has_been_run_is_reused_and_marked(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    # Rank 2 has 64 parameters, so that it is the same job as at 64.
    spec = an_adapt_spec(method="lora", budget=70, tuning={"trials": 2})
    with sessions.begin() as session:
        alone = jobs.create(session, ada, spec).job
    finish_all(sessions)
    with sessions.begin() as session:
        preview = studies.preview(session, a_study_spec(), RULES)
    assert [job.reused for job in preview.jobs if job.reused] == [alone.id]
    assert (preview.new_jobs, preview.reused_jobs) == (5, 1)
    study = create(sessions, ada)
    (job,) = cell(study, "lora").jobs
    assert (job.id, job.reused, cell(study, "lora").state) == (alone.id, True, "succeeded")
    assert study.jobs == {"queued": 5, "succeeded": 2}


def test_a_method_that_comes_out_the_same_at_two_budgets_is_one_job(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    study = create(sessions, ada, a_study_spec(methods=["lora"], budgets=[40, 50]))
    assert cell(study, "lora", 40).jobs == cell(study, "lora", 50).jobs
    assert study.jobs["queued"] == 1


def test_a_base_model_is_made_first_and_jobs_wait_for_it(
    sessions: Sessions, ada: Principal
) -> None:
    spec = a_study_spec(base_models=[a_pretrain_document()])
    with sessions.begin() as session:
        preview = studies.preview(session, spec, RULES)
    assert (preview.base_models[0].is_new, preview.passes) == (True, 7)
    study = create(sessions, ada, spec)
    assert study.jobs == {"queued": 1, "waiting": 6}
    assert [(b.name, b.job.state, b.job.reused) for b in study.base_models] == [
        (BASE, "queued", False)
    ]
    assert finish_all(sessions) == 7
    assert look(sessions).state == "succeeded"


def test_a_base_model_that_fails_leaves_the_study_incomplete_until_it_is_run_again(
    sessions: Sessions, ada: Principal
) -> None:
    create(sessions, ada, a_study_spec(base_models=[a_pretrain_document()]))
    ledger = a_made_up_ledger(sessions)
    ledger.fail(a_claim(ledger), "diverged", "the loss is not finite", retry=False)
    study = look(sessions)
    assert (study.state, study.terminal, study.jobs) == ("incomplete", True, {"failed": 7})
    assert {c.state for c in study.cells} == {"missing"}
    assert {job.reason for c in study.cells for job in c.jobs} == {"base_model_failed"}
    again = extend(sessions, ada, "small")
    assert again.jobs == {"queued": 1, "waiting": 6}
    finish_all(sessions)
    assert look(sessions).state == "succeeded"


def test_a_study_of_a_failed_base_model_is_refused(sessions: Sessions, ada: Principal) -> None:
    with sessions.begin() as session:
        a_base_model(session, state="failed")
    with pytest.raises(InvalidSpec) as caught:
        create(sessions, ada)
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == ("/base_models/0", "base_model_failed")


def test_one_failed_job_is_missing_alone_and_runs_again_on_request(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    create(sessions, ada)
    ledger = a_made_up_ledger(sessions)
    ledger.fail(a_claim(ledger), "diverged", "the loss is not finite", retry=False)
    finish_all(sessions)
    study = look(sessions)
    missing = [c for c in study.cells if c.state == "missing"]
    assert (study.state, study.jobs) == ("incomplete", {"failed": 1, "succeeded": 6})
    assert {job.reason for c in missing for job in c.jobs} == {"diverged"}
    again = extend(sessions, ada, "small")
    assert again.jobs == {"queued": 1, "succeeded": 6}
    assert finish_all(sessions) == 1
    assert look(sessions).state == "succeeded"


def test_more_seeds_are_further_jobs_that_go_on_where_the_first_ended(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    create(sessions, ada, a_study_spec(seeds=3))
    finish_all(sessions)
    study = extend(sessions, ada, "small", seeds=5)
    first, second = cell(study, "lora").jobs
    assert (first.seeds, second.seeds) == ((0, 1, 2), (3, 4))
    assert (first.state, second.state, cell(study, "lora").state) == (
        "succeeded", "queued", "running",
    )  # fmt: skip
    # Of two replicates of the base, seed 3 starts from the second, as it would in one job.
    assert resolved(sessions, first.id).base_replicates == (0, 1, 0)
    assert resolved(sessions, second.id).base_replicates == (1, 0)
    assert study.spec["seeds"] == 5
    before = jobs_stored(sessions)
    assert extend(sessions, ada, "small", seeds=5) == look(sessions)
    assert jobs_stored(sessions) == before


def test_the_job_of_later_seeds_can_be_asked_for_again(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    create(sessions, ada)
    _, later = cell(extend(sessions, ada, "small", seeds=3), "lora").jobs
    with sessions.begin() as session:
        job = jobs.get(session, later.id)
        alone = jobs.create(session, ada, an_adapt_spec(**job.spec)).job
    assert alone.spec_digest == job.spec_digest


def test_methods_budgets_and_tasks_are_added(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    create(sessions, ada)
    finish_all(sessions)
    study = extend(sessions, ada, "small", methods=["ia3", "lora"], budgets=[128])
    # IA3 has 3 · 16 parameters of its own size; prefix and LoRA come out larger at 128.
    assert study.jobs == {"queued": 3, "succeeded": 7}
    assert [(s.method, s.budget, s.nearest) for s in study.skipped] == [("ia3", 32, (48,))]
    assert cell(study, "ia3", 64).jobs == cell(study, "ia3", 128).jobs
    assert cell(study, "frozen", 128).jobs == cell(study, "frozen", 32).jobs
    assert {job.reused for c in study.cells for job in c.jobs} == {False}
    task = {"name": "sort_ascending", "length": 3, "alphabet": 4}
    wider = extend(sessions, ada, "small", tasks=[task])
    assert len(wider.cells) == 2 * len(study.cells)
    assert wider.jobs == {"queued": 3 + 9, "succeeded": 7}


def test_a_budget_added_later_has_all_seeds_of_a_method_of_fixed_size(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    create(sessions, ada)
    extend(sessions, ada, "small", seeds=3)
    before = jobs_stored(sessions)
    study = extend(sessions, ada, "small", budgets=[65])
    assert jobs_stored(sessions) == before
    assert [job.seeds for job in cell(study, "frozen", 65).jobs] == [(0, 1), (2,)]


def test_an_extension_is_previewed(sessions: Sessions, ada: Principal, base: None) -> None:
    create(sessions, ada)
    before = jobs_stored(sessions)
    with sessions.begin() as session:
        extension = StudyExtension(seeds=4)
        preview = studies.preview_extension(session, "small", extension, RULES)
    assert (preview.new_jobs, preview.reused_jobs, preview.passes) == (6, 6, 6)
    assert {job.resolved_spec.seeds for job in preview.jobs} == {(0, 1), (2, 3)}
    assert jobs_stored(sessions) == before
    assert look(sessions).spec["seeds"] == 2


def test_a_clone_reuses_what_did_not_change(sessions: Sessions, ada: Principal, base: None) -> None:
    create(sessions, ada)
    finish_all(sessions)
    with sessions.begin() as session:
        changes = StudyChanges.model_validate(
            {"name": "wider", "methods": ["frozen", "lora", "ia3"]}
        )
        spec = studies.cloned(session, "small", changes)
    study = create(sessions, ada, spec)
    assert study.jobs == {"queued": 1, "succeeded": 4}
    assert [c.method for c in study.cells if not c.jobs[0].reused] == ["ia3"]


def test_what_other_code_computed_is_not_reused(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    create(sessions, ada)
    done = finish_all(sessions, code_version="0.0.1+abc")
    study = create(sessions, ada, a_study_spec(name="anew"))
    assert study.jobs == {"queued": done, "succeeded": 1}  # that one has made the base model
    assert look(sessions).state == "succeeded"


def test_cancelling_stops_what_nobody_else_wants(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    with sessions.begin() as session:
        alone = jobs.create(
            session, ada, an_adapt_spec(method="lora", budget=32, tuning={"trials": 2})
        ).job
    first = create(sessions, ada)
    other = create(sessions, ada, a_study_spec(name="other", methods=["prefix_tuning"]))
    assert {job.reused for c in other.cells for job in c.jobs} == {True}
    ledger = a_made_up_ledger(sessions)
    running = a_claim(ledger)
    assert running.job_id == alone.id
    cancelled = cancel(sessions, ada, "small")
    assert (cancelled.state, cancelled.terminal) == ("cancelled", True)
    # The two of the other study go on, and the one that was there before the study.
    assert cancelled.jobs == {"cancelled": 3, "queued": 2, "running": 1, "succeeded": 1}
    assert ledger.heartbeat(running, 1) == "continue"
    assert cancel(sessions, ada, str(first.id)).cancelled_at == cancelled.cancelled_at
    # When the last study that wants them goes, so do they.
    assert cancel(sessions, ada, "other").jobs == {"cancelled": 2, "succeeded": 1}
    with pytest.raises(StateConflict):
        extend(sessions, ada, "small", seeds=3)


def test_cancelling_stops_a_running_job_and_a_base_model_that_was_made_for_it(
    sessions: Sessions, ada: Principal
) -> None:
    create(sessions, ada, a_study_spec(base_models=[a_pretrain_document()]))
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    study = cancel(sessions, ada, "small")
    assert study.jobs == {"cancelled": 6, "running": 1}
    assert ledger.heartbeat(claim, 1) == "stop"


def test_a_base_model_that_others_wait_for_is_not_cancelled(
    sessions: Sessions, ada: Principal
) -> None:
    create(sessions, ada, a_study_spec(base_models=[a_pretrain_document()]))
    with sessions.begin() as session:
        other = jobs.create(session, ada, an_adapt_spec()).job
    cancel(sessions, ada, "small")
    assert finish_all(sessions) == 2
    with sessions.begin() as session:
        assert jobs.get(session, other.id).state == "succeeded"


def test_a_name_is_taken_once(sessions: Sessions, ada: Principal, base: None) -> None:
    create(sessions, ada)
    before = jobs_stored(sessions)
    with pytest.raises(StateConflict):
        create(sessions, ada)
    with pytest.raises(StateConflict), sessions.begin() as session:
        studies.preview(session, a_study_spec(), RULES)
    assert jobs_stored(sessions) == before
    with pytest.raises(Absent):
        look(sessions, "nobody")


def test_of_two_studies_of_one_name_at_once_one_is_made(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    def attempt(_: int) -> bool:
        try:
            create(sessions, ada)
        except StateConflict:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(attempt, range(4)))
    assert sorted(made) == [False, False, False, True]
    assert jobs_stored(sessions) == 1 + 6


def test_the_studies_of_a_job_are_listed(sessions: Sessions, ada: Principal, base: None) -> None:
    study = create(sessions, ada)
    create(sessions, ada, a_study_spec(name="other", methods=["ia3"], budgets=[64]))
    (job,) = cell(study, "lora").jobs
    with sessions.begin() as session:
        assert [s.name for s in studies.page(session).data] == ["other", "small"]
        assert [s.name for s in studies.page(session, job_id=job.id).data] == ["small"]
        first = studies.page(session, page_size=1)
        second = studies.page(session, page_size=1, page_token=first.next_page_token)
        assert [s.name for s in (*first.data, *second.data)] == ["other", "small"]
        assert second.next_page_token is None


def names(session: Session, text: str) -> Sequence[str | None]:
    return sorted(job.method or "base" for job in lists.page(session, JobQuery(text)).data)


def test_jobs_are_filtered_by_study(sessions: Sessions, ada: Principal, base: None) -> None:
    study = create(sessions, ada, a_study_spec(methods=["lora", "ia3"], budgets=[64]))
    with sessions.begin() as session:
        jobs.create(session, ada, an_adapt_spec(method="soft_prompt"))
        for name in ("small", study.id):
            assert names(session, f'study = "{name}"') == ["base", "ia3", "lora"]
        assert names(session, "study = small AND kind = adapt") == ["ia3", "lora"]
        assert names(session, "study != small") == ["soft_prompt"]
        assert names(session, "study IN (nobody, small) AND method = lora") == ["lora"]
        assert names(session, "study = nobody") == []
        with pytest.raises(InvalidSpec):
            names(session, "study > small")


@pytest.mark.may_stand_still("a transaction may pause for 0.3 s, planning apart")
def test_a_study_may_be_computed_for_longer_than_others_may_hold_a_transaction(
    sessions: Sessions, ada: Principal, base: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """784 jobs on 16 base models of 48 layers take nine seconds."""

    def slowly(*given: Any) -> StudyPlan:
        time.sleep(1)  # as the longest computation
        return expand(*given)

    monkeypatch.setattr(studies, "expand", slowly)
    for do in (
        lambda session: studies.preview(session, a_study_spec(), RULES),
        lambda session: studies.create(session, ada, a_study_spec(), RULES),
    ):
        with sessions.begin() as session:
            session.execute(text("SET LOCAL idle_in_transaction_session_timeout = '300ms'"))
            do(session)
            # What follows the plan may pause only for as long as before.
            assert session.scalar(text("SHOW idle_in_transaction_session_timeout")) == "300ms"
    assert look(sessions).jobs


def test_a_large_study_takes_no_more_statements_than_a_small_one(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    spec = a_study_spec(
        name="large",
        methods=["prefix_tuning", "soft_prompt"],
        tasks=[{"name": "sort_descending", "length": 3, "alphabet": a} for a in (2, 3, 4)],
        budgets=[8 * rows for rows in range(1, 33)],
    )
    with statements(sessions) as of_few:
        create(sessions, ada)
    with statements(sessions) as of_many:
        study = create(sessions, ada, spec)
    assert study.jobs == {"queued": 192, "succeeded": 1}
    # The driver sends what has many rows in a few parts, not one by one.
    assert len(of_many) <= len(of_few) + 2


def test_studies_made_at_once_share_their_jobs(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    with ThreadPoolExecutor() as pool:
        with sessions.begin() as session:
            studies.create(session, ada, a_study_spec(name="first"), RULES)
            second = pool.submit(create, sessions, ada, a_study_spec(name="second"))
            # Nothing of the first can be seen yet: the second has to wait for its end.
            until(lambda: second.done() or somebody_waits(sessions), "a second that waits")
            assert not second.done()
        assert all(job.reused for cell in second.result().cells for job in cell.jobs)
