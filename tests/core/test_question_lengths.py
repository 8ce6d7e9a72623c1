"""Trainings that become longer while losses fall."""

from adaptlab.questions.lengths import length_of
from adaptlab.questions.passes import (
    ComparisonPlace,
    MethodState,
    PassKind,
    PassState,
    TableState,
    TrainingPass,
    TriedRate,
)
from adaptlab.questions.planning import look
from adaptlab.studies.question import QuestionLimits
from adaptlab.studies.study import QuestionSpec

RATES = (0.01, 0.1, 1.0)
STEPS = 100


def a_pass(
    method: str,
    *,
    falls: bool = False,
    kind: PassKind = "sweep",
    state: PassState = "done",
    times: int = 1,
) -> TrainingPass:
    tried = tuple(
        TriedRate(
            learning_rate=rate, accuracy=0.9 if rate == 0.1 else 0.1, loss=1.0, seeds=2, falls=falls
        )
        for rate in RATES
    )
    return TrainingPass(
        number=0,
        kind=kind,
        method=method,
        seeds=(0, 1),
        rates=RATES,
        replicate_steps=6 * STEPS * times,
        state=state,
        tried=tried if state == "done" and kind != "evidence" else (),
        times_longer=times,
    )


def a_table(**passes: tuple[TrainingPass, ...]) -> TableState:
    methods = tuple(
        MethodState(label=label, role="method", rates=RATES, steps=STEPS, passes=own, scores=None)
        for label, own in passes.items()
    )
    return TableState(
        place=ComparisonPlace(base_model="base", task="task", budget=64), methods=methods
    )


def asked(times_longer: int) -> QuestionSpec:
    return QuestionSpec(at_most=QuestionLimits(times_longer=times_longer))


def test_one_loss_that_falls_makes_all_trainings_longer() -> None:
    table = a_table(a=(a_pass("a", falls=True),), b=(a_pass("b"),))
    length = length_of(table, 4)
    assert (length.times, [one.steps for one in length.table.methods]) == (2, [200, 200])
    planned = look(asked(4), [table]).passes
    assert [(one.method, one.kind, one.times_longer) for one in planned] == [
        ("a", "sweep", 2),
        ("b", "sweep", 2),
    ]
    assert all(one.reason.startswith("The loss of a still fell") for one in planned)
    assert {one.replicate_steps for one in planned} == {3 * 2 * 2 * STEPS}


def test_they_stay_as_they_are_unless_that_is_allowed() -> None:
    table = a_table(a=(a_pass("a", falls=True),), b=(a_pass("b"),))
    assert length_of(table, 1).times == 1
    assert {one.kind for one in look(asked(1), [table]).passes} == {"evidence"}


def test_evidence_waits_for_the_last_method_to_be_tuned() -> None:
    table = a_table(a=(a_pass("a"),), b=(a_pass("b", state="open"),))
    assert look(asked(2), [table]).passes == ()
    assert [one.method for one in look(asked(1), [table]).passes] == ["a"]


def test_nothing_becomes_longer_once_there_is_evidence() -> None:
    evidence = a_pass("a", kind="evidence", state="open")
    table = a_table(a=(a_pass("a", falls=True), evidence), b=(a_pass("b"),))
    assert length_of(table, 4).times == 1


def test_a_failed_method_holds_nothing_up() -> None:
    failed = a_pass("b", state="failed")
    assert length_of(a_table(a=(a_pass("a", falls=True),), b=(failed,)), 2).times == 2


def test_doubling_stops_at_the_limit_and_when_no_loss_falls() -> None:
    doubled = (a_pass("a", falls=True), a_pass("a", falls=True, times=2))
    rested = (a_pass("b"), a_pass("b", times=2))
    assert length_of(a_table(a=doubled, b=rested), 3).times == 2
    assert length_of(a_table(a=doubled, b=rested), 4).times == 4
    assert length_of(a_table(a=(doubled[0], rested[1]), b=rested), 4).times == 2
