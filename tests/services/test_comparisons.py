"""Comparisons of invented rows: verdicts, warnings, causes and gaps."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import (
    ENOUGH_BASES,
    ITEMS,
    Run,
    a_measured_job,
    a_measured_study_spec,
    as_known,
    run_all,
    write_run,
)
from tests.making import (
    BASE,
    a_base_model,
    a_claim,
    a_made_up_ledger,
    a_pretrain_document,
    a_principal,
    a_project,
    an_adapt_spec,
)
from tests.watching import statements

from adaptlab.comparisons.comparison import Comparison
from adaptlab.comparisons.diagnosis import Diagnosis
from adaptlab.comparisons.table_comparison import TableComparison
from adaptlab.comparisons.verdict import Verdict
from adaptlab.errors import InvalidSpec
from adaptlab.runs.events import Usage
from adaptlab.specs.spec import PretrainSpec, ResolvedSpec
from adaptlab.studies.study import StudyExtension
from adaptlab_answers.comparisons import JobComparisonView, StudyComparisonView
from adaptlab_db.tables import AttemptRow, BaseModel, Job
from adaptlab_services.comparisons import comparisons
from adaptlab_services.comparisons.comparisons import Strictness
from adaptlab_services.errors import Absent
from adaptlab_services.jobs import jobs
from adaptlab_services.people.tokens import Principal
from adaptlab_services.results import results
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

Sessions = sessionmaker[Session]
USED = Usage(
    training_seconds=10,
    training_steps=5,
    evaluation_seconds=3,
    peak_memory_bytes=1,
    base_memory_bytes=1,
)
AS_ALWAYS = Strictness()
LORA = {"name": "lora", "rank": 1}
METHODS = ("frozen", "full_finetuning", "prefix_tuning", "lora")


@pytest.fixture
def ada(sessions: Sessions) -> Principal:
    """Somebody who studies a base model of five replicates."""
    return with_a_base(sessions)


def with_a_base(sessions: Sessions) -> Principal:
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)
        return a_principal(session)


def create(sessions: Sessions, who: Principal, **changes: object) -> None:
    spec = a_measured_study_spec(**changes)
    with sessions.begin() as session:
        studies.create(session, who, spec, Rules())


def extend(sessions: Sessions, who: Principal, **added: object) -> None:
    with sessions.begin() as session:
        studies.extend(session, who, "small", StudyExtension.model_validate(added), Rules())


def submit(sessions: Sessions, who: Principal, **changes: object) -> UUID:
    spec = an_adapt_spec(**a_measured_job(**changes))
    with sessions.begin() as session:
        return jobs.create(session, who, spec).job.id


def compared(sessions: Sessions, strictness: Strictness = AS_ALWAYS) -> StudyComparisonView:
    with sessions.begin() as session:
        return comparisons.of_study(session, "small", strictness)


def compared_jobs(sessions: Sessions, *job_ids: UUID) -> JobComparisonView:
    with sessions.begin() as session:
        return comparisons.of_jobs(session, job_ids)


def only_table(found: JobComparisonView) -> TableComparison:
    (table,) = found.tables
    return table


def kinds(found: JobComparisonView) -> list[str]:
    return [warning.kind for warning in found.warnings]


def failing(method: str) -> Callable[[ResolvedSpec], Run]:
    def run(spec: ResolvedSpec) -> Run:
        return Run(fails=True) if (spec.method or {}).get("name") == method else as_known(spec)

    return run


@pytest.fixture(scope="module")
def five_seeds(shared_sessions: Sessions) -> StudyComparisonView:
    """The comparison of a study of five seeds that was measured as is known."""
    create(shared_sessions, with_a_base(shared_sessions), seeds=5)
    run_all(shared_sessions, as_known)
    return compared(shared_sessions)


def comparison_of(found: StudyComparisonView) -> Comparison:
    comparison = only_table(found).comparison
    assert comparison is not None
    return comparison


def verdicts_of(found: StudyComparisonView) -> dict[tuple[str, str], Verdict]:
    verdicts = [one for cell in comparison_of(found).cells for one in cell.verdicts]
    return {(one.pair.first, one.pair.second): one for one in verdicts}


def test_a_study_is_compared_in_one_table(five_seeds: StudyComparisonView) -> None:
    assert (five_seeds.study.name, five_seeds.study.terminal) == ("small", True)
    assert five_seeds.warnings == ()
    table = only_table(five_seeds)
    assert (table.base_model, table.task) == (BASE, "sort_descending(length=3, alphabet=4)")


def test_every_method_has_the_score_of_all_seeds(five_seeds: StudyComparisonView) -> None:
    small, large = comparison_of(five_seeds).cells
    assert (small.budget, large.budget) == (32, 64)
    assert [(row.label, row.score.mean, row.parameters) for row in small.rows] == [
        ("frozen", 0.0, 0),
        ("full_finetuning", 1.0, 1024),
        ("prefix_tuning at 32", 4 / ITEMS, 32),
        ("lora at 32", 300 / ITEMS, 32),
    ]
    assert {row.score.seeds for cell in (small, large) for row in cell.rows} == {5}


def test_the_best_set_and_the_standing_of_each_method(five_seeds: StudyComparisonView) -> None:
    small, large = comparison_of(five_seeds).cells
    assert small.best == ("lora at 32",)  # full fine-tuning is beyond the budget
    assert [(row.standing, row.failing.failing) for row in small.rows] == [
        ("fails", 5), ("works", 0), ("fails", 5), ("works", 0),
    ]  # fmt: skip
    assert large.best == ("lora at 64",)
    behind = small.rows[1].against_best
    assert behind is not None
    assert behind.difference == 0.25


def test_a_report_per_budget_is_written_once(five_seeds: StudyComparisonView) -> None:
    small, large = only_table(five_seeds).reports
    assert small.headline.startswith("At up to 32 trained parameters, LoRA (75.0 %) is the best")
    assert small.rows[0].label == "lora at 32"
    assert large.against == "LoRA"


def test_the_risk_names_what_other_jobs_of_the_project_have_seen(
    sessions: Sessions, ada: Principal
) -> None:
    """Of 15 seeds of LoRA, five stay at the base alone and five diverge."""
    create(sessions, ada, seeds=5)
    run_all(sessions, as_known)
    assert "In other jobs" not in str(only_table(compared(sessions)).reports)
    for number, run in enumerate((Run(right=300), Run(right=8), Run(fails=True))):
        changes = {"budget": {"trainable_parameters": 32}, "training": {"steps": 5 + number}}
        submit(sessions, ada, method=LORA, seeds=5, **changes)
        run_all(sessions, lambda _, run=run: run)
    submit(sessions, ada, method="prefix_tuning", seeds=5, training={"steps": 9})
    run_all(sessions, as_known)
    table = only_table(compared(sessions))
    seen = {one.label: (one.failing, one.seeds, one.family) for one in table.seen}
    assert seen["lora at 32"] == seen["lora at 64"] == (10, 15, "minigpt")
    assert seen["prefix_tuning at 32"] == (5, 5, "minigpt")
    assert "frozen" not in seen
    note = table.reports[0].notes[-1]
    assert note.endswith("In other jobs here, LoRA failed on 10 of 15 seeds (minigpt).")


def test_seeds_of_other_projects_are_not_told(sessions: Sessions, ada: Principal) -> None:
    create(sessions, ada, seeds=5)
    run_all(sessions, as_known)
    small = {"trainable_parameters": 32}
    job = {"method": LORA, "seeds": 5, "budget": small}
    submit(sessions, ada, **job, training={"steps": 8})
    elsewhere = submit(sessions, ada, **job, training={"steps": 9})
    with sessions.begin() as session:
        moved = update(Job).where(Job.id == elsewhere)
        session.execute(moved.values(project_id=a_project(session, "another")))
    run_all(sessions, as_known)
    seen = {one.label: one.seeds for one in only_table(compared(sessions)).seen}
    assert seen == {"lora at 32": 5, "lora at 64": 5}


def test_verdicts_have_the_margin_and_the_comparisons_they_correct_for(
    five_seeds: StudyComparisonView,
) -> None:
    behind = verdicts_of(five_seeds)["full_finetuning", "lora at 32"]
    assert behind.margin == 0.01
    # One pair of references, two of them with four rows, and two methods at each of two budgets.
    assert comparison_of(five_seeds).comparisons == 1 + 8 + 2 == behind.comparisons


def test_the_effort_and_the_sweep_are_shown(sessions: Sessions, ada: Principal) -> None:
    create(sessions, ada)
    run_all(sessions, as_known)
    methods = {one.label: one for one in only_table(compared(sessions)).methods}
    assert list(methods) == [
        "frozen",
        "full_finetuning",
        "prefix_tuning at 32",
        "prefix_tuning at 64",
        "lora at 32",
        "lora at 64",
    ]
    lora = methods["lora at 32"]
    assert (lora.trials, lora.steps, lora.seeds, lora.role) == (3, 20, (0, 1, 2), "method")
    assert [(one.seeds, one.chosen, one.validation_accuracy) for one in lora.sweep] == [
        (3, 0, pytest.approx(0.7)),
        (3, 0, pytest.approx(0.7)),
        (3, 3, pytest.approx(0.75)),
    ]
    assert lora.sweep[0].learning_rate < lora.sweep[2].learning_rate
    frozen = methods["frozen"]
    assert (frozen.role, frozen.trials, frozen.sweep[0].validation_accuracy) == (
        "reference", 1, None,
    )  # fmt: skip


LONGER = {
    "name": "prefix_tuning",
    "label": "longer",
    "training": {"steps": 40},
    "tuning": {"trials": 7, "learning_rate_range": [0.003, 3]},
}
WIDE = {"trials": 7, "learning_rate_range": [0.003, 3]}
DECIDING = (*METHODS, "pinned_finetuning", LONGER)
"""Methods with which reach can be concluded of a prefix at the smaller budget."""
CONSTANT = {"steps": 20, "batch_size": 4, "schedule": "constant"}


def diagnosed(found: StudyComparisonView) -> dict[str, Diagnosis]:
    return {one.label: one.diagnosis for one in only_table(found).diagnoses}


def test_a_prefix_that_every_control_speaks_against_does_not_reach_the_task(
    sessions: Sessions, ada: Principal
) -> None:
    create(sessions, ada, methods=DECIDING, training=CONSTANT, tuning=WIDE)
    run_all(sessions, as_known)
    found = diagnosed(compared(sessions))
    prefix = found["prefix_tuning at 32"]
    assert (prefix.cause, prefix.missing, prefix.next_run) == ("reach", (), None)
    assert prefix.text == (
        "Not reached here by prefix-tuning at 32: 0 of 84 trials above 5.0 %, while LoRA at 64 "
        "scores 100.0 %."
    )
    assert any(one.endswith("without one, fine-tuning scores 55.0 %.") for one in prefix.reasons)
    # No larger size was measured of the larger one.
    larger = found["prefix_tuning at 64"]
    assert (larger.cause, larger.missing) == (
        "undecided", ("a larger size, with the same steps and rates",),
    )  # fmt: skip
    assert larger.minutes is not None
    # LoRA has learned the task, and three seeds exclude neither size from being the best.
    assert not {"lora at 32", "lora at 64"} & set(found)
    assert "frozen" not in found
    assert "full_finetuning" not in found


def test_a_proposal_run_word_for_word_decides_and_leaves_the_table_alone(
    sessions: Sessions, ada: Principal
) -> None:
    """It once voided every verdict, and was then asked for again."""
    create(sessions, ada, budgets=[64])
    run_all(sessions, as_known)
    before = compared(sessions)
    first = diagnosed(before)["prefix_tuning at 64"]
    assert (first.cause, first.next_run is None) == ("undecided", False)
    extend(sessions, ada, **(first.next_run or {}))
    waiting = diagnosed(compared(sessions))["prefix_tuning at 64"]
    assert (waiting.text, waiting.next_run) == ("Undecided until 3 controls have ended.", None)
    run_all(sessions, as_known)
    after = compared(sessions)
    last = diagnosed(after)["prefix_tuning at 64"]
    assert (last.cause, last.next_run) == ("reach", None)
    assert comparison_of(after) == comparison_of(before)
    assert after.warnings == before.warnings
    table = only_table(after)
    assert [one.role for one in table.controls] == ["control"] * 3
    assert table.methods == only_table(before).methods
    assert table.missing == ()


def test_methods_that_repeat_others_with_other_training_void_nothing(
    sessions: Sessions, ada: Principal
) -> None:
    """Proposals of earlier versions were methods of the study."""
    create(sessions, ada, budgets=[64])
    again = {"name": "prefix_tuning", "length": 8, "training": {"schedule": "constant"}}
    longer = {**again, "label": "longer", "training": {"schedule": "constant", "steps": 40}}
    extend(sessions, ada, methods=[{**again, "label": "again"}, longer, "pinned_finetuning"])
    run_all(sessions, as_known)
    found = compared(sessions)
    assert not comparison_of(found).voided
    assert diagnosed(found)["prefix_tuning at 64"].next_run is not None


def test_a_control_that_failed_is_not_asked_for_again(sessions: Sessions, ada: Principal) -> None:
    create(sessions, ada, budgets=[64])
    run_all(sessions, as_known)
    first = diagnosed(compared(sessions))["prefix_tuning at 64"]
    extend(sessions, ada, **(first.next_run or {}))
    run_all(sessions, failing("prefix_tuning"))
    last = diagnosed(compared(sessions))["prefix_tuning at 64"]
    assert (last.cause, last.next_run) == ("undecided", None)
    assert "cannot be decided here, because this was tried and failed: twice" in last.text


@pytest.mark.long("every combination")
def test_every_proposal_plans_jobs(sessions: Sessions, ada: Principal) -> None:
    create(sessions, ada, methods="all")
    run_all(sessions, as_known)
    proposals = {
        label: one.next_run
        for label, one in diagnosed(compared(sessions)).items()
        if one.next_run is not None
    }
    assert proposals
    for proposal in proposals.values():
        with sessions.begin() as session:
            extension = StudyExtension.model_validate(proposal)
            assert studies.preview_extension(session, "small", extension, Rules()).new_jobs > 0


def test_a_control_of_any_size_fits_and_one_without_a_size_follows_the_budgets(
    sessions: Sessions, ada: Principal
) -> None:
    large = {"name": "prefix_tuning", "length": 16, "label": "large"}
    free = {"name": "prefix_tuning", "label": "again", "training": {"schedule": "constant"}}
    create(sessions, ada, controls=[large, free])
    run_all(sessions, as_known)
    table = only_table(compared(sessions))
    sizes = {one.label: one.parameters for one in table.controls}
    assert sizes == {"large": 128, "again at 32": 32, "again at 64": 64}


def test_a_training_that_is_only_longer_voids_no_table(sessions: Sessions, ada: Principal) -> None:
    create(sessions, ada, methods=DECIDING, budgets=[64], training=CONSTANT)
    run_all(sessions, as_known)
    found = compared(sessions)
    comparison = only_table(found).comparison
    assert comparison is not None
    assert not comparison.voided
    (unequal,) = [one for one in found.warnings if "steps differ" in one.text]
    assert unequal.text == "The numbers of steps differ: longer at 64 has 40, the others have 20."


def test_a_base_that_has_not_learned_its_own_task_decides_nothing(
    sessions: Sessions, ada: Principal
) -> None:
    create(sessions, ada, methods=DECIDING, training=CONSTANT)
    run_all(sessions, lambda spec: replace(as_known(spec), own_task=(120, 100)))
    found = {one.label: one.diagnosis for one in only_table(compared(sessions)).diagnoses}
    prefix = found["prefix_tuning at 32"]
    assert prefix.cause == "undecided"
    assert "because the base model scores only 30.0 % on its own tasks" in prefix.text


@pytest.mark.long("every combination", but=1)
@pytest.mark.parametrize(
    ("above", "expected"),
    [
        ((0.4, 0.0, 0.3), None),
        ((0.0, 0.0, 0.0), None),
        ((0.4, 0.2, 0.0), "highest learning rate whose"),
        ((0.0, 0.2, 0.4), "lowest learning rate whose"),
    ],
)
def test_a_sweep_whose_best_rate_is_at_an_end_is_warned_of(
    sessions: Sessions, ada: Principal, above: tuple[float, ...], expected: str | None
) -> None:
    create(sessions, ada, budgets=[64], tuning={"trials": 3, "learning_rate_range": [0.01, 0.1]})

    def known(spec: ResolvedSpec) -> Run:
        is_prefix = (spec.method or {}).get("name") == "prefix_tuning"
        return Run(right=4, loss=1.3, above=above) if is_prefix else as_known(spec)

    run_all(sessions, known)
    warned = [one for one in compared(sessions).warnings if one.kind == "sweep_at_edge"]
    assert [one.methods for one in warned] == ([("prefix_tuning at 64",)] if expected else [])
    if expected:
        assert expected in warned[0].text
        range_ = "[0.01, 1]" if expected.startswith("highest") else "[0.001, 0.1]"
        assert f"Try tuning.learning_rate_range {range_}" in warned[0].text


def test_what_adapting_forgot_is_beside_the_scores(sessions: Sessions, ada: Principal) -> None:
    create(sessions, ada, budgets=[64])
    run_all(sessions, as_known)
    found = {one.label: one.changes for one in only_table(compared(sessions)).forgetting}
    (full,) = found["full_finetuning"]
    assert (full.task["name"], full.seeds) == ("sort_ascending", 3)
    assert (full.before.mean, full.after.mean) == (pytest.approx(0.95), pytest.approx(0.05))
    assert found["prefix_tuning at 64"][0].mean == pytest.approx(-0.1)
    assert "lora at 64" not in found


def test_retention_pairs_seeds_and_items_with_the_base(sessions: Sessions, ada: Principal) -> None:
    create(sessions, ada, budgets=[64])
    run_all(sessions, as_known)
    table = only_table(compared(sessions))
    found = {one.label: one.tasks for one in table.retention}
    (full,), (prefix,) = found["full_finetuning"], found["prefix_tuning at 64"]
    # Of 400 items the base has 380, full fine-tuning 20 and the prefix 340.
    assert prefix.mean == pytest.approx((340 / 400 - full.floor) / (380 / 400 - full.floor))
    assert full.mean == pytest.approx((20 / 400 - full.floor) / (380 / 400 - full.floor))
    assert (full.seeds, full.reason, "lora at 64" in found) == ((0, 1, 2), None, False)
    (frontier,) = table.frontiers
    assert {row.label for row in frontier.rows} == {"full_finetuning", "prefix_tuning at 64"}
    assert frontier.tasks == ("sort_ascending",)


def test_a_job_says_why_retention_was_not_measured(sessions: Sessions, ada: Principal) -> None:
    job = submit(sessions, ada, method=LORA, budget={}, seeds=[0, 1, 2])
    run_all(sessions, lambda spec: replace(as_known(spec), own_task=(40, 20)))
    with sessions.begin() as session:
        (one,) = results.evaluations(session, job).retention
        assert results.evaluations(session, job, attached=True).retention == ()
    assert (one.mean, one.base) == (None, pytest.approx(0.1))
    assert one.reason is not None
    assert one.reason.startswith("The base is at its floor without a cue: 10.0 % right")


def test_a_base_that_has_not_learned_its_own_task_is_warned_of(
    sessions: Sessions, ada: Principal
) -> None:
    create(sessions, ada, budgets=[64])
    run_all(sessions, lambda spec: replace(as_known(spec), own_task=(168, 20)))
    (warning,) = compared(sessions).warnings
    assert warning.kind == "base_not_learned"
    # Chance is 4 ** -3 for three digits below four: half way to 1 is 50.8 %.
    assert (
        f"{BASE} has not learned its own task: it scores 42.0 % on sort_ascending" in warning.text
    )
    assert "half way from chance to 1 is 50.8 %." in warning.text


def test_a_failed_job_is_missing_with_its_reason(sessions: Sessions, ada: Principal) -> None:
    create(sessions, ada, budgets=[16, 64])
    run_all(sessions, failing("prefix_tuning"))
    found = compared(sessions)
    table = only_table(found)
    assert [(m.method, m.budget, m.state, m.reason, m.seeds) for m in table.missing] == [
        ("prefix_tuning", 16, "failed", "diverged", (0, 1, 2)),
        ("prefix_tuning", 64, "failed", "diverged", (0, 1, 2)),
        ("lora", 16, "skipped", "infeasible_budget", ()),
    ]
    assert "The loss is not finite" in table.missing[0].text
    assert "left out" in table.missing[2].text
    assert table.comparison is not None
    lost = {"prefix_tuning at 16": (0, 3, "fails"), "prefix_tuning at 64": (0, 3, "fails")}
    rows = {
        row.label: (row.failing.ok, row.failing.seeds, row.standing)
        for cell in table.comparison.cells
        for row in cell.rows
    }
    assert rows.keys() == {"frozen", "full_finetuning", "lora at 64", *lost}
    assert lost.items() <= rows.items()
    assert kinds(found) == ["missing"]
    # Run again as somebody would: nothing is missing any more but what does not fit.
    extend(sessions, ada)
    run_all(sessions, as_known)
    again = compared(sessions)
    assert [m.state for m in only_table(again).missing] == ["skipped"]
    assert again.warnings == ()


def test_a_study_without_scores_is_tables_without_comparison(
    sessions: Sessions, ada: Principal
) -> None:
    create(sessions, ada)
    a_claim(a_made_up_ledger(sessions))
    found = compared(sessions)
    table = only_table(found)
    assert (table.comparison, table.diagnoses, found.study.state) == (None, (), "running")
    assert [m.state for m in table.missing] == ["running", *["queued"] * 5]
    assert kinds(found) == ["missing"]


def test_an_unfinished_attempt_has_no_scores(sessions: Sessions, ada: Principal) -> None:
    """Some evaluations come before the last; the row waits for all."""
    create(sessions, ada, methods=["lora"], budgets=[32, 64])
    run_all(sessions, as_known)
    extend(sessions, ada, methods=["ia3"])
    ledger = a_made_up_ledger(sessions)
    write_run(ledger, a_claim(ledger), Run(right=400))
    table = only_table(compared(sessions))
    assert table.comparison is not None
    assert {row.method for cell in table.comparison.cells for row in cell.rows} == {"lora"}
    assert [(m.method, m.state) for m in table.missing] == [("ia3", "running"), ("ia3", "skipped")]


def test_the_attempt_that_succeeded_is_the_one_that_counts(
    sessions: Sessions, ada: Principal
) -> None:
    create(sessions, ada, methods=["lora"], budgets=[64], seeds=1)
    ledger = a_made_up_ledger(sessions)
    lost = a_claim(ledger)
    write_run(ledger, lost, Run(right=400, deviation=0.5, own_task=(400, 0)))
    ledger.release(lost, "preempted")
    run_all(sessions, lambda spec: Run(right=100, loss=1.3, own_task=(400, 200)))
    table = only_table(compared(sessions))
    assert table.comparison is not None
    ((row,),) = (cell.rows for cell in table.comparison.cells)
    assert row.score.mean == 0.25
    assert [change.mean for change in table.forgetting[0].changes] == [-0.5]
    sweep = table.methods[0].sweep
    assert [(one.seeds, one.final_loss) for one in sweep] == [(1, pytest.approx(1.3))] * 3
    extend(sessions, ada, methods=["full_finetuning"])
    run_all(sessions, as_known)
    (found,) = only_table(compared(sessions)).diagnoses
    assert found.diagnosis.missing[0] == "3 seeds that did not diverge"


def test_later_seeds_join_their_row(sessions: Sessions, ada: Principal) -> None:
    create(sessions, ada, methods=["lora"], budgets=[64])
    run_all(sessions, lambda spec: Run(right=200, shift=10))
    extend(sessions, ada, seeds=5)
    table = only_table(compared(sessions))
    assert [(m.method, m.seeds, m.state) for m in table.missing] == [("lora", (3, 4), "queued")]
    assert [m.text for m in table.missing] == ["LoRA at 64 (seeds 3, 4) is queued."]
    run_all(sessions, lambda spec: Run(right=200, shift=10))
    table = only_table(compared(sessions))
    assert table.comparison is not None
    ((row,),) = (cell.rows for cell in table.comparison.cells)
    # Seeds 0 to 4 have 200, 210, … 240 items right.
    assert (row.score.seeds, row.score.mean) == (5, pytest.approx(220 / ITEMS))
    assert (table.missing, table.comparison.voided) == ((), False)
    assert [len(one.jobs) for one in table.methods] == [2]
    assert table.methods[0].sweep[0].seeds == 5


def test_another_version_of_the_code_voids(sessions: Sessions, ada: Principal) -> None:
    create(sessions, ada, methods=["lora"], budgets=[64])
    run_all(sessions, as_known)
    extend(sessions, ada, methods=["ia3"])
    run_all(sessions, lambda spec: Run(right=200, code_version="0.2.0"))
    found = compared(sessions)
    comparison = only_table(found).comparison
    assert comparison is not None
    assert (comparison.voided, kinds(found)) == (True, ["not_comparable"])
    assert "/environment/code_version" in found.warnings[0].text


def test_another_halving_is_unequal_effort_and_the_steps_of_all_are_told(
    sessions: Sessions, ada: Principal
) -> None:
    whole = submit(sessions, ada, method="lora", budget=64)
    halving = {"trials": 3, "halving": {"rungs": 1}}
    halved = submit(sessions, ada, method="prefix_tuning", budget=64, tuning=halving)
    run_all(sessions, as_known)
    found = compared_jobs(sessions, whole, halved)
    assert kinds(found) == ["unequal_effort"]
    assert "/training/halving" in found.warnings[0].text
    lora, prefix = only_table(found).methods
    # three seeds of 20 steps: with three trials, or with two that end at half
    assert (lora.trained_steps, prefix.trained_steps) == (3 * 60, 3 * 40)
    assert [one.eliminated for one in lora.sweep] == [0, 0, 0]
    assert [one.eliminated for one in prefix.sweep] == [3, 3, 0]


def test_jobs_of_no_study_are_compared(sessions: Sessions, ada: Principal) -> None:
    full = submit(sessions, ada, method="full_finetuning", budget={})
    early = submit(sessions, ada, method="lora", budget=64)
    late = submit(sessions, ada, method="lora", budget=64, seeds=[3, 4])
    wide = submit(sessions, ada, method={"name": "lora", "alpha": 4}, budget=64)
    run_all(sessions, as_known)
    found = compared_jobs(sessions, full, early, late, wide, early)
    table = only_table(found)
    assert (table.base_model, table.task) == (BASE, "sort_descending")
    # Two jobs that differ in their seeds alone are one row, another alpha is another.
    labels = [(one.label, len(one.jobs)) for one in table.methods]
    assert labels[0] == ("full_finetuning", 1)
    assert sorted(count for _, count in labels) == [1, 1, 2]
    assert "alpha = 4" in labels[2][0]
    assert table.comparison is not None
    assert table.comparison.cheapest is not None
    assert len(table.comparison.cells[0].rows) == 3


def test_other_tasks_are_tables_and_other_bases_are_void(
    sessions: Sessions, ada: Principal
) -> None:
    with sessions.begin() as session:
        a_base_model(session, "other", contents=[b"weights"])
    ascending = {"name": "sort_ascending", "length": 3, "alphabet": 4}
    one = submit(sessions, ada, method="lora", budget=64)
    two = submit(
        sessions, ada, method="lora", budget=64, base_model="other", base_replicates=[0] * 3
    )
    three = submit(sessions, ada, method="lora", budget=64, task=ascending)
    run_all(sessions, as_known)
    found = compared_jobs(sessions, one, two, three)
    first, second = found.tables
    assert (first.task, second.task) == ("sort_descending", "sort_ascending")
    assert [m.label for m in first.methods] == [f"lora on {BASE} at 64", "lora on other at 64"]
    assert first.comparison is not None
    assert first.comparison.voided is True


def test_what_cannot_be_compared_is_refused(sessions: Sessions, ada: Principal) -> None:
    with sessions.begin() as session:
        base = a_base_model(session, "third")
    with pytest.raises(InvalidSpec, match="is not an adaptation"):
        compared_jobs(sessions, base)
    with pytest.raises(Absent):
        compared_jobs(sessions, uuid4())
    with pytest.raises(Absent):
        compared(sessions)


def test_a_base_model_that_failed_leaves_tables_of_missing_scores(
    sessions: Sessions, ada: Principal
) -> None:
    create(sessions, ada, base_models=[a_pretrain_document(name="fresh", seeds=1)])
    run_all(sessions, lambda spec: Run(fails=True))
    table = only_table(compared(sessions))
    assert table.comparison is None
    assert {m.reason for m in table.missing} == {"base_model_failed"}


def test_more_jobs_are_not_more_statements(sessions: Sessions, ada: Principal) -> None:
    create(sessions, ada, methods=["lora"], budgets=[64])
    run_all(sessions, as_known)
    with statements(sessions) as few:
        compared(sessions)
    extend(sessions, ada, methods=["ia3", "prefix_tuning", "frozen"], budgets=[96, 128])
    run_all(sessions, as_known)
    with statements(sessions) as many:
        compared(sessions)
    assert len(many) == len(few) <= 12


def test_seeds_on_an_imported_base_are_said_to_show_this_base_only(
    sessions: Sessions, ada: Principal
) -> None:
    with sessions.begin() as session:
        a_base_model(session, "published", contents=(b"weights",), kind="import")
    create(sessions, ada, base_models=["published"], methods=["full_finetuning", "lora"], seeds=6)
    run_all(sessions, as_known)
    said = compared(sessions)
    assert [kind for kind in kinds(said) if "base" in kind] == ["imported_base"]
    (one,) = [one for one in said.warnings if one.kind == "imported_base"]
    assert "hold for this base model only" in one.text


def test_a_control_without_the_base_is_no_measure_and_has_seeds_of_its_own(
    sessions: Sessions, ada: Principal
) -> None:
    create(sessions, ada, methods=["from_scratch", "full_finetuning", "lora"], seeds=6)
    run_all(sessions, as_known)
    found = compared(sessions)
    table = only_table(found)
    assert {one.method: one.role for one in table.methods} == {
        "from_scratch": "reference",
        "full_finetuning": "reference",
        "lora": "method",
    }
    assert table.comparison is not None
    assert table.comparison.cheapest is not None
    assert table.comparison.cheapest.reference == "full_finetuning"
    (shared,) = [one for one in found.warnings if one.kind == "shared_bases"]  # five for six seeds
    assert "full_finetuning" in shared.methods
    assert "from_scratch" not in shared.methods
    # It trains and has learned half, of a task that full fine-tuning has learned.
    assert "from_scratch" in {one.method for one in table.diagnoses}


def test_a_routed_adaptation_is_not_placed_by_retention(sessions: Sessions, ada: Principal) -> None:
    create(sessions, ada, budgets=[64], evaluation={"mode": "routed"})
    run_all(sessions, as_known)
    table = only_table(compared(sessions))
    tasks = [task for one in table.retention for task in one.tasks]
    assert {task.figure for task in tasks} == {"zero forgetting by routing"}
    assert table.frontiers == ()


@pytest.mark.parametrize(("alone", "expected"), [(380, True), (379, False)])
def test_a_job_says_whether_it_is_reversible(
    sessions: Sessions, ada: Principal, alone: int, expected: bool
) -> None:
    def known(spec: ResolvedSpec) -> Run:
        is_base = spec.kind == "pretrain"
        return Run(right=380) if is_base else replace(as_known(spec), own_task=(alone, 340))

    with sessions.begin() as session:
        base = a_pretrain_document(name="own", seeds=3)
        jobs.create(session, ada, PretrainSpec.model_validate(base))
    run_all(sessions, known)
    job = submit(sessions, ada, base_model="own", method=LORA, budget={}, seeds=[0, 1, 2])
    run_all(sessions, known)
    with sessions.begin() as session:
        (one,) = results.evaluations(session, job).retention
        assert (one.reversible, one.mode) == (expected, "always_on")
        replaced = update(BaseModel).where(BaseModel.name == "own").values(job_id=job)
        session.execute(replaced)
        (other,) = results.evaluations(session, job).retention
        assert other.reversible is None, "another base model has the name"


def test_the_time_of_a_job_counts_the_attempts_that_it_continued(
    sessions: Sessions, ada: Principal
) -> None:
    job = submit(sessions, ada, method=LORA, seeds=2, budget={"trainable_parameters": 32})
    run_all(sessions, as_known)
    with sessions.begin() as session:
        last = session.get_one(AttemptRow, (job, 1))
        assert results.job_seconds(session, [job]) == {}
        last.usage = USED.model_dump()
        paused = AttemptRow(job_id=job, attempt=0, worker_id=last.worker_id, outcome="paused")
        paused.first_step_at = last.started_at - timedelta(seconds=60)
        paused.ended_at = last.started_at
        session.add(paused)
        session.flush()
        assert results.job_seconds(session, [job]) == {job: 73}
