"""Theory checks as jobs of studies: waiting, reuse and display."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    a_claim,
    a_made_up_ledger,
    a_pretrain_document,
    a_study_document,
    an_environment,
)
from tests.watching import somebody_waits, until

from adaptlab.reproductions.recipe import RecipeRef
from adaptlab.runs.events import Started, TheoryChecked
from adaptlab.runs.theory_report import Check
from adaptlab.specs.spec import TheorySpec
from adaptlab.studies.study import StudyExtension, StudySpec
from adaptlab_answers.studies import StudyPreview, StudyView
from adaptlab_db.tables import Job, Study
from adaptlab_services.jobs import jobs
from adaptlab_services.leases.reaping import reap
from adaptlab_services.lifecycle.transitions import transition
from adaptlab_services.people.tokens import Principal
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

Sessions = sessionmaker[Session]
RULES = Rules()
OF_LORA = {"name": "relative_attention", "of": "lora"}
GOOD = Check.at_most("equation-6", "Equation 6.", 1e-16, 1e-12)
BAD = Check.at_least("moves", "LoRA moves it.", 1e-9, 1e-6)


def spec_of(**changes: Any) -> StudySpec:
    small = {"methods": ["lora"], "budgets": [64], "checks": [OF_LORA]}
    return StudySpec.model_validate(a_study_document(**(small | changes)))


def create(sessions: Sessions, who: Principal, spec: StudySpec) -> StudyView:
    with sessions.begin() as session:
        return studies.create(session, who, spec, RULES).study


def extend(sessions: Sessions, who: Principal, **added: object) -> StudyView:
    extension = StudyExtension.model_validate(added)
    with sessions.begin() as session:
        return studies.extend(session, who, "small", extension, RULES).study


def cancel(sessions: Sessions, who: Principal) -> StudyView:
    with sessions.begin() as session:
        return studies.cancel(session, who, "small").study


def preview(sessions: Sessions, spec: StudySpec) -> StudyPreview:
    with sessions.begin() as session:
        return studies.preview(session, spec, RULES)


def look(sessions: Sessions) -> StudyView:
    with sessions.begin() as session:
        return studies.get(session, "small")


def finish(sessions: Sessions, *checks: Check, **environment: str) -> str:
    """Succeed with the next job and return its kind, or `checks`."""
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    ledger.record(claim, [Started(environment=an_environment(**environment), replicates=1)])
    if claim.resolved_spec.kind == "theory":
        ledger.record(
            claim, [TheoryChecked(place=place, check=one) for place, one in enumerate(checks)]
        )
    ledger.finish(claim)
    return claim.resolved_spec.kind


def fail(sessions: Sessions) -> None:
    ledger = a_made_up_ledger(sessions)
    ledger.fail(a_claim(ledger), "diverged", "the loss is not finite", retry=False)


def states(study: StudyView) -> list[str]:
    return [check.job.state for check in study.checks]


def test_checks_alone_are_a_study(sessions: Sessions, ada: Principal) -> None:
    spec = StudySpec.model_validate({"name": "small", "checks": ["theorems", "rotation"]})
    planned = preview(sessions, spec)
    assert [check.label for check in planned.checks] == ["theorems", "rotation"]
    assert (planned.new_jobs, planned.passes, planned.base_models) == (2, 0, ())
    study = create(sessions, ada, spec)
    assert (study.jobs, study.state, study.cells) == ({"queued": 2}, "running", ())
    assert finish(sessions, GOOD) == "theory"
    assert finish(sessions, GOOD, BAD) == "theory"
    ended = look(sessions)
    assert ended.state == "succeeded"
    assert [(c.label, c.verdict, c.reports) for c in ended.checks] == [
        ("theorems", "holds", (GOOD,)), ("rotation", "fails", (GOOD, BAD)),
    ]  # fmt: skip


def test_a_check_waits_for_the_adaptation_that_it_measures(
    sessions: Sessions, ada: Principal
) -> None:
    study = create(sessions, ada, spec_of(base_models=[a_pretrain_document()]))
    assert study.jobs == {"queued": 1, "waiting": 2}
    assert finish(sessions) == "pretrain"
    # Its base model is there, and what it measures is not.
    assert states(look(sessions)) == ["waiting"]
    assert finish(sessions) == "adapt"
    assert states(look(sessions)) == ["queued"]
    assert finish(sessions, GOOD) == "theory"
    assert [check.verdict for check in look(sessions).checks] == ["holds"]


def test_a_check_names_the_adaptation_that_it_measures(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    study = create(sessions, ada, spec_of())
    (check,) = study.checks
    (cell,) = study.cells
    assert (check.label, check.base_model, check.task, check.method, check.budget) == (
        "relative_attention", cell.base_model, cell.task, "lora", 64,
    )  # fmt: skip
    finish(sessions)
    with sessions.begin() as session:
        job = jobs.get(session, check.job.id)
    assert [one.job for one in job.resolved_spec.adaptations] == [cell.jobs[0].id]
    assert job.spec["adaptation"] == str(cell.jobs[0].id)


def test_a_check_of_an_adaptation_that_fails_fails_and_both_run_again(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    create(sessions, ada, spec_of())
    fail(sessions)
    study = look(sessions)
    assert (study.state, study.jobs) == ("incomplete", {"failed": 2, "succeeded": 1})
    (check,) = study.checks
    assert (check.job.reason, check.verdict) == ("adaptation_failed", None)
    again = extend(sessions, ada)
    assert again.jobs == {"queued": 1, "succeeded": 1, "waiting": 1}
    assert again.checks[0].job.id != check.job.id
    finish(sessions)
    finish(sessions, GOOD)
    assert look(sessions).state == "succeeded"


def test_a_check_of_a_base_model_that_fails_says_so(sessions: Sessions, ada: Principal) -> None:
    create(sessions, ada, spec_of(base_models=[a_pretrain_document()]))
    fail(sessions)
    study = look(sessions)
    assert study.jobs == {"failed": 3}
    assert study.checks[0].job.reason == "base_model_failed"


def test_several_adaptations_are_all_waited_for(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    create(sessions, ada, spec_of(budgets=[32, 64], checks=[OF_LORA | {"together": True}]))
    (check,) = look(sessions).checks
    assert (check.job.state, check.method, check.task, check.budget) == (
        "waiting", "lora", None, None,
    )  # fmt: skip
    finish(sessions)
    assert states(look(sessions)) == ["waiting"]
    finish(sessions)
    assert states(look(sessions)) == ["queued"]


def test_more_seeds_are_a_further_adaptation_and_a_further_check(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    create(sessions, ada, spec_of())
    finish(sessions)
    finish(sessions, GOOD)
    study = extend(sessions, ada, seeds=3)
    assert [(c.job.state, c.verdict) for c in study.checks] == [
        ("succeeded", "holds"), ("waiting", None),
    ]  # fmt: skip
    with sessions.begin() as session:
        measured = [jobs.get(session, c.job.id).resolved_spec.adaptations for c in study.checks]
    assert [one.seeds for (one,) in measured] == [(0, 1), (2,)]
    assert extend(sessions, ada, seeds=3) == look(sessions)


def test_checks_are_added_and_what_is_there_stays(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    create(sessions, ada, spec_of(checks=[]))
    finish(sessions)
    study = extend(sessions, ada, checks=[OF_LORA, "theorems", "identities"])
    assert states(study) == ["queued", "queued", "queued"]
    assert [c.base_model for c in study.checks] == ["tiny-sort", None, "tiny-sort"]
    assert study.jobs == {"queued": 3, "succeeded": 2}
    again = extend(sessions, ada, checks=[OF_LORA])
    assert [c.job.id for c in again.checks] == [c.job.id for c in study.checks]
    assert {c.job.reused for c in again.checks} == {False}


def test_a_preview_has_the_checks_that_a_creation_makes(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    spec = spec_of(budgets=[32, 64], checks=[OF_LORA, "theorems"])
    planned = preview(sessions, spec)
    assert [(c.label, c.method, c.budget) for c in planned.checks] == [
        ("relative_attention", "lora", 32), ("relative_attention", "lora", 64),
        ("theorems", None, None),
    ]  # fmt: skip
    assert (planned.new_jobs, planned.passes) == (5, 2)
    study = create(sessions, ada, spec)
    with sessions.begin() as session:
        digests = [jobs.get(session, c.job.id).spec_digest for c in study.checks]
    assert digests == [check.job for check in planned.checks]


def test_cancelling_locks_what_is_waited_for_before_what_waits(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    study = create(sessions, ada, spec_of())
    adapted, check = study.cells[0].jobs[0].id, study.checks[0].job.id
    with ThreadPoolExecutor() as pool, sessions.begin() as worker:
        # A worker that ends the adaptation has its row, and then wants that of the check.
        worker.execute(select(Job.id).where(Job.id == adapted).with_for_update())
        cancelling = pool.submit(cancel, sessions, ada)
        until(lambda: cancelling.done() or somebody_waits(sessions), "a cancelling that waits")
        worker.execute(select(Job.id).where(Job.id == check).with_for_update(nowait=True))
    assert cancelling.result().jobs == {"cancelled": 2, "succeeded": 1}


def test_an_adaptation_that_somebody_else_measures_is_not_cancelled(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    study = create(sessions, ada, spec_of(checks=[]))
    adapted = study.cells[0].jobs[0].id
    with sessions.begin() as session:
        theory = TheorySpec.model_validate(
            {"checks": ["relative_attention"], "adaptation": adapted}
        )
        waiting = jobs.create(session, ada, theory).job
        assert waiting.state == "waiting"
        studies.cancel(session, ada, "small")
    assert finish(sessions) == "adapt"
    with sessions.begin() as session:
        assert jobs.get(session, waiting.id).state == "queued"


def test_what_is_missed_when_two_adaptations_end_at_once_the_reaper_settles(
    sessions: Sessions, ada: Principal, base: None
) -> None:
    create(sessions, ada, spec_of(budgets=[32, 64], checks=[OF_LORA | {"together": True}]))
    ledger = a_made_up_ledger(sessions)
    one, two = a_claim(ledger), a_claim(ledger)
    with sessions.begin() as first, sessions.begin() as second:
        # Neither sees that the other has ended.
        for session, claim in ((first, one), (second, two)):
            assert transition(session, claim.job_id, to="succeeded", from_states=("running",))
    assert states(look(sessions)) == ["waiting"]
    with sessions.begin() as session:
        assert reap(session).queues == ("cpu",)
    assert states(look(sessions)) == ["queued"]


def test_a_study_says_of_which_recipe_it_is(sessions: Sessions, ada: Principal) -> None:
    spec = StudySpec.model_validate({"name": "small", "checks": ["theorems"]})
    recipe = RecipeRef(name="petrov2024/theorems", preset="quick")
    with sessions.begin() as session:
        made = studies.create(session, ada, spec, RULES, recipe=recipe).study
        (listed,) = studies.page(session).data
    assert made.recipe == listed.recipe == recipe
    plain = create(sessions, ada, spec.model_copy(update={"name": "plain"}))
    assert plain.recipe is None
    with sessions.begin() as session:
        without = session.scalars(select(Study.name).where(Study.recipe.is_(None))).all()
    assert without == ["plain"]
