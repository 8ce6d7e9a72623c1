"""Successive halving: comparisons, refusals, costs and weights.

Tests cover when trials are compared, what is refused, and what it costs and weighs.
"""

import pytest
from tests.core.comparable import a_job, pointers
from tests.making import a_resolved_job, an_adapt_spec

from adaptlab.errors import InvalidSpec
from adaptlab.specs.cost import Work, work
from adaptlab.specs.halving import Stage, continuing_trials, rung_steps, stages
from adaptlab.specs.resolved import ResolvedAdapt, ResolvedPretrain
from adaptlab.specs.spec import Halving


def halved(
    steps: int, trials: int, halving: dict[str, object] | None
) -> ResolvedPretrain | ResolvedAdapt:
    spec = an_adapt_spec(
        method={"name": "full_finetuning"},
        budget={},
        training={"steps": steps, "batch_size": 4, "validations": 0},
        tuning={"trials": trials, "halving": halving},
    )
    return a_resolved_job(spec)


@pytest.mark.parametrize(
    ("steps", "halving", "expected"),
    [
        (400, {"rungs": 2}, [(0, 100, 8), (100, 200, 4), (200, 400, 2)]),
        (400, {"rungs": 1}, [(0, 200, 8), (200, 400, 4)]),
        (270, {"rungs": 3, "keep": 1 / 3}, [(0, 10, 8), (10, 30, 3), (30, 90, 1), (90, 270, 1)]),
        (10, {"rungs": 2}, [(0, 3, 8), (3, 5, 4), (5, 10, 2)]),
        (400, None, [(0, 400, 8)]),
    ],
)
def test_trials_are_compared_where_every_stage_costs_as_much(
    steps: int, halving: dict[str, object] | None, expected: list[tuple[int, int, int]]
):
    found = list(stages(halved(steps, 8, halving).training))
    assert found == [Stage(first=a, last=b, trials=n) for a, b, n in expected]


def test_the_share_that_goes_on_is_rounded_up_but_not_for_the_last_bit():
    assert [continuing_trials(Halving(rungs=1), n) for n in (1, 2, 3, 4, 5)] == [1, 1, 2, 2, 3]
    # 0.1 · 30 and 5 / 6 · 6 are a little above 3 and 5 as floating-point numbers
    assert continuing_trials(Halving(rungs=1, keep=0.1), 30) == 3
    assert continuing_trials(Halving(rungs=1, keep=5 / 6), 6) == 5
    assert continuing_trials(Halving(rungs=1, keep=1e-9), 64) == 1


@pytest.mark.parametrize(
    ("steps", "trials", "halving", "pointer", "nearest"),
    [
        (400, 1, {"rungs": 1}, "", ()),
        (400, 4, {"rungs": 1, "keep": 0.9}, "/keep", (0.75,)),
        (8, 4, {"rungs": 4}, "/rungs", (3,)),
        (1, 4, {"rungs": 1}, "/rungs", ()),
        (400, 4, {"rungs": 1, "keep": 1e-9}, "/rungs", ()),
    ],
)
def test_what_would_halve_nothing_is_refused(
    steps: int,
    trials: int,
    halving: dict[str, object],
    pointer: str,
    nearest: tuple[float, ...],
):
    with pytest.raises(InvalidSpec) as caught:
        halved(steps, trials, halving)
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.nearest) == (f"/tuning/halving{pointer}", nearest)
    if pointer and nearest:
        halved(steps, trials, halving | {pointer[1:]: nearest[0]})  # the nearest is one


def test_every_share_that_is_offered_as_the_nearest_stops_one_trial():
    for trials in range(2, 65):
        assert continuing_trials(Halving(rungs=1, keep=(trials - 1) / trials), trials) == trials - 1


@pytest.mark.parametrize(
    "halving", [{}, {"rungs": 0}, {"rungs": 1, "keep": 0}, {"rungs": 1, "keep": 1}]
)
def test_values_out_of_bounds_are_refused(halving: dict[str, object]):
    with pytest.raises(ValueError, match="halving"):
        halved(400, 4, halving)


def test_the_estimate_counts_the_steps_that_are_left():
    def counted(steps: int, trials: int, halving: dict[str, object] | None = None) -> Work:
        return work(halved(steps, trials, halving))

    found = counted(40, 8, {"rungs": 2})
    left = [counted(10, 8), counted(10, 4), counted(20, 2)]
    compared = 3 * (left[0].evaluation.flops - left[1].evaluation.flops)  # eight, and then four
    assert found.training.flops == sum(one.training.flops for one in left) + compared
    assert found.evaluation == left[2].evaluation
    assert found.memory_bytes == left[0].memory_bytes


def test_validations_on_the_way_are_of_the_trials_that_are_left():
    def flops(validations: int, rungs: int) -> int:
        spec = halved(40, 8, {"rungs": rungs} if rungs else None)
        training = spec.training.model_copy(update={"validations": validations})
        return work(spec.model_copy(update={"training": training})).training.flops

    plain, some = (flops(4, rungs) - flops(0, rungs) for rungs in (0, 2))
    # after steps 10, 20, 30 and 40: before a rung takes any away there are 8, 4, 2 and 2 trials
    assert some * 32 == plain * 16


def test_another_halving_is_unequal_effort():
    plain = a_job("plain", tuning={"trials": 4})
    halving = a_job("halved", tuning={"trials": 4, "halving": {"rungs": 1}})
    other = a_job("other", tuning={"trials": 4, "halving": {"rungs": 2}})
    assert pointers(halving, a_job("same", tuning={"trials": 4, "halving": {"rungs": 1}})) == {}
    for pair in ((plain, halving), (halving, other)):
        assert pointers(*pair) == {"/training/halving": "effort"}


def test_rungs_of_no_halving_are_none():
    assert rung_steps(400, None) == ()
