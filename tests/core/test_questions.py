"""Questions: rates, goals, plans and words, from written-down passes."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from adaptlab.questions.passes import (
    ComparisonPlace,
    MethodState,
    PassState,
    TableState,
    TrainingPass,
    TriedRate,
)
from adaptlab.questions.planning import StudyKnowledge, fixed_cost, least_cost, look, most_cost
from adaptlab.questions.rates import Tuned, Untuned, coarse, tuning
from adaptlab.questions.statements import rule_of
from adaptlab.questions.wording import ending_sentence, margin_text
from adaptlab.statistics import Scores
from adaptlab.studies.question import QuestionLimits, WithinMarginOf
from adaptlab.studies.study import QuestionSpec

ITEMS = 1000
STEPS = 10
GRID = tuple(1e-4 * 2.0**place for place in range(8))
PLACE = ComparisonPlace(base_model="base", task="reverse", budget=512)
WITHIN = QuestionSpec(decide=WithinMarginOf(within_margin_of="full"), margin=0.5)
BEST, ORDER, WORKS = QuestionSpec(), QuestionSpec(decide="order"), QuestionSpec(decide="works")


def scores(label: str, accuracies: Sequence[float]) -> Scores:
    rows = [np.packbits(np.arange(ITEMS) < round(ITEMS * one)) for one in accuracies]
    return Scores(
        method=label,
        seeds=tuple(range(2, 2 + len(rows))),
        items=ITEMS,
        outcomes=tuple(row.tobytes().hex() for row in rows),
    )


def tried(*results: tuple[float, float]) -> tuple[TriedRate, ...]:
    """Return sweeps' results from rates with their accuracies."""
    return tuple(
        TriedRate(learning_rate=rate, accuracy=accuracy, loss=1.0, seeds=2)
        for rate, accuracy in results
    )


def swept(label: str = "a", state: PassState = "done", number: int = 0) -> TrainingPass:
    """Return a sweep of which a rate inside is the best."""
    rates = coarse(GRID)
    return TrainingPass(
        number=number,
        kind="sweep",
        method=label,
        seeds=(0, 1),
        rates=rates,
        replicate_steps=STEPS * 2 * len(rates),
        state=state,
        tried=tried(*zip(rates, (0.1, 0.9, 0.3, 0.0), strict=True)) if state == "done" else (),
    )


def seeds(label: str, numbers: range, state: PassState = "done", number: int = 1) -> TrainingPass:
    return TrainingPass(
        number=number,
        kind="evidence",
        method=label,
        seeds=tuple(numbers),
        rates=(GRID[2],),
        replicate_steps=STEPS * len(numbers),
        state=state,
    )


def method(label: str, *accuracies: float, later: Sequence[TrainingPass] = ()) -> MethodState:
    """Return a tuned method whose seeds have these accuracies."""
    ran = (seeds(label, range(2, 2 + len(accuracies))),) if accuracies else ()
    return MethodState(
        label=label,
        role="method",
        rates=GRID,
        steps=STEPS,
        passes=(swept(label), *ran, *later),
        scores=scores(label, accuracies) if accuracies else None,
    )


def untried(label: str) -> MethodState:
    return MethodState(label=label, role="method", rates=GRID, steps=STEPS, passes=(), scores=None)


def seen(question: QuestionSpec, *methods: MethodState, hours: float = 0.0) -> StudyKnowledge:
    return look(question, [TableState(place=PLACE, methods=methods)], hours)


def stages(found: StudyKnowledge) -> dict[str, str]:
    return {one.label: one.stage for one in found.tables[0].methods}


def new_seeds(found: StudyKnowledge) -> dict[str, tuple[int, ...]]:
    return {one.method: one.seeds for one in found.passes}


# rates


def test_a_coarse_grid_keeps_both_ends_and_about_half_of_the_rates():
    assert coarse(GRID) == (GRID[0], GRID[2], GRID[5], GRID[7])
    assert coarse(GRID[:3]) == GRID[:3]
    assert coarse(GRID[:5]) == (GRID[0], GRID[2], GRID[4])


def test_a_best_rate_inside_is_chosen():
    assert tuning(method("a")) == Tuned(GRID[2], 0.9)


def test_without_rates_nothing_is_tuned():
    assert tuning(untried("a").model_copy(update={"rates": ()})) == Tuned(None)
    assert tuning(untried("a").model_copy(update={"rates": (0.1,)})) == Tuned(0.1)


def test_a_sweep_is_waited_for_and_run_again_if_it_was_dropped():
    waiting = untried("a").model_copy(update={"passes": (swept(state="open"),)})
    dropped = untried("a").model_copy(update={"passes": (swept(state="dropped"),)})
    assert tuning(waiting) is None
    again = tuning(dropped)
    assert isinstance(again, Untuned)
    assert again == tuning(untried("a"))
    assert again.rates == coarse(GRID)


def _with_edge(*widened: Sequence[tuple[float, float]]) -> MethodState:
    """Return a method with its best rate at an edge, and wider sweeps."""
    first = swept().model_copy(
        update={"tried": tried(*zip(coarse(GRID), (0.0, 0.1, 0.2, 0.5), strict=True))}
    )
    wider = [
        TrainingPass(
            number=1 + place,
            kind="wider",
            method="a",
            seeds=(0, 1),
            rates=tuple(rate for rate, _ in results),
            replicate_steps=0,
            state="done",
            tried=tried(*results),
        )
        for place, results in enumerate(widened)
    ]
    return untried("a").model_copy(update={"passes": (first, *wider)})


def test_an_edge_is_widened_by_the_rate_that_was_skipped_and_one_beyond():
    wider = tuning(_with_edge())
    assert isinstance(wider, Untuned)
    assert wider.kind == "wider"
    assert wider.rates == (GRID[6], pytest.approx(4 * GRID[7]))


def test_an_edge_is_widened_twice_at_most():
    first = [(GRID[6], 0.3), (4 * GRID[7], 0.6)]
    again = tuning(_with_edge(first))
    assert isinstance(again, Untuned)
    assert again.rates == (pytest.approx(2 * GRID[7]), pytest.approx(16 * GRID[7]))
    at_last = tuning(_with_edge(first, [(2 * GRID[7], 0.4), (16 * GRID[7], 0.7)]))
    assert at_last == Tuned(16 * GRID[7], 0.7, is_edge=True)
    inside = tuning(_with_edge(first, [(2 * GRID[7], 0.4), (16 * GRID[7], 0.1)]))
    assert inside == Tuned(4 * GRID[7], 0.6)


def test_an_edge_that_does_not_stand_out_is_not_widened():
    close = swept().model_copy(
        update={"tried": tried(*zip(coarse(GRID), (0.9, 0.896, 0.2, 0.5), strict=True))}
    )
    chosen = tuning(untried("a").model_copy(update={"passes": (close,)}))
    assert chosen == Tuned(GRID[0], 0.9)


def test_a_diverged_rate_is_not_chosen_among_rates_that_learn_nothing():
    results = [
        TriedRate(learning_rate=rate, accuracy=0.0, loss=loss, seeds=2)
        for rate, loss in zip(coarse(GRID), (2.0, 1.9, 1.895, None), strict=True)
    ]
    failed = swept().model_copy(update={"tried": tuple(results)})
    assert tuning(untried("a").model_copy(update={"passes": (failed,)})) == Tuned(GRID[5], 0.0)


def by_perplexity(*perplexities: float) -> MethodState:
    """Return a method with the perplexities of a sweep."""
    results = [
        TriedRate(learning_rate=rate, accuracy=right, loss=1.0, seeds=2, lowest=value)
        for rate, right, value in zip(coarse(GRID), (0.9, 0.1, 0.2, 0.9), perplexities, strict=True)
    ]
    swept_once = swept().model_copy(update={"tried": tuple(results)})
    return untried("a").model_copy(update={"passes": (swept_once,)})


def test_the_lowest_perplexity_chooses_a_rate_whatever_the_accuracy():
    assert tuning(by_perplexity(9.0, 4.0, 7.0, 1e30)) == Tuned(coarse(GRID)[1], 0.1)


def test_an_edge_of_lower_perplexity_by_1_percent_is_widened():
    wider = tuning(by_perplexity(9.0, 8.0, 4.0, 3.9))
    assert isinstance(wider, Untuned)
    assert wider.kind == "wider"
    assert tuning(by_perplexity(9.0, 8.0, 4.0, 3.97)) == Tuned(GRID[7], 0.9)


# rules and goals


def test_the_error_is_divided_among_all_statements_that_can_be_false_at_once():
    def share(question: QuestionSpec, methods: int, tables: int = 1) -> float:
        rule = rule_of(question, methods, tables)
        assert 1 / rule.threshold + rule.item_tail == pytest.approx(
            (1 / rule.threshold) / 0.9  # nine tenths are for seeds
        )
        return 0.05 / (1 / rule.threshold + rule.item_tail)

    assert share(BEST, 2) == pytest.approx(2)  # of two equal methods, neither exceeds the other
    assert share(BEST, 4) == pytest.approx(6)  # only the best can be lost, or falsely be near
    assert share(ORDER, 4) == pytest.approx(12)
    assert share(WITHIN, 4) == pytest.approx(6)
    assert share(WORKS, 4) == pytest.approx(12)
    assert share(BEST, 4, tables=3) == pytest.approx(18)
    assert share(QuestionSpec(confidence=0.99), 2) == pytest.approx(10)


def test_the_best_is_found_once_all_others_are_ruled_out():
    one, none = [1.0] * 8, [0.0] * 8
    found = seen(BEST, method("a", *one), method("b", *none), method("c", *none))
    assert (found.ending, found.passes) == ("answered", ())
    assert stages(found) == {"a": "settled", "b": "out", "c": "out"}
    ruled_out = [(one.statement.first, one.statement.second) for one in found.tables[0].ruled_out]
    assert ruled_out == [("a", "b"), ("a", "c")]
    assert found.sentence == (
        "a (100.0 %) is the best: its seeds usually beat those of b (0.0 %) and c (0.0 %) "
        "(95 % confidence at every look, 8 seeds)."
    )


def test_the_best_to_within_the_margin_ends_a_question():
    wide = QuestionSpec(margin=0.5)
    found = seen(wide, method("a", *[0.9] * 16), method("b", *[0.9] * 16), method("c", *[0.0] * 16))
    assert found.ending == "answered"
    assert stages(found) == {"a": "settled", "b": "settled", "c": "out"}
    assert found.sentence == (
        "a (90.0 %) is the best to within 50 points: b (90.0 %) does not exceed it by more (95 % "
        "confidence at every look, 16 seeds)."
    )


def test_an_order_is_a_chain():
    methods = method("b", *[0.5] * 16), method("a", *[1.0] * 16), method("c", *[0.0] * 16)
    found = seen(ORDER, *methods)
    assert found.ending == "answered"
    assert found.sentence == (
        "The order is a (100.0 %), then b (50.0 %), then c (0.0 %): seeds of each usually beat "
        "those of the next (95 % confidence at every look, 16 seeds)."
    )


def test_methods_that_differ_by_less_than_the_margin_settle_an_order():
    wide = QuestionSpec(decide="order", margin=0.6)
    found = seen(wide, method("a", *[0.5] * 20), method("b", *[0.5] * 20))
    assert found.ending == "answered"
    assert "a and b differ by at most 60 points" in found.sentence
    assert len(found.tables[0].goals[0].ways[2]) == 2


def test_a_method_works_if_it_exceeds_the_base_alone_and_chance():
    base = method("frozen", *[0.0] * 12)
    half = QuestionSpec(decide="works", margin=0.4)
    found = look(
        half,
        [
            TableState(
                place=PLACE,
                methods=(base, method("a", *[1.0] * 12), method("b", *[0.0] * 12)),
                chance=0.2,
            )
        ],
    )
    assert found.ending == "answered"
    assert found.sentence == (
        "For most seeds, a (100.0 %) works, exceeding the scores of the frozen base and of chance "
        "by more than 40 points; b (0.0 %) does not work (95 % confidence at every look, "
        "12 seeds)."
    )


def test_always_giving_the_most_common_label_of_the_items_does_not_work():
    often = method("a", *[0.875] * 24)
    assert often.scores is not None
    known = often.model_copy(update={"scores": often.scores.model_copy(update={"majority": 0.875})})
    base, works = method("frozen", *[0.0] * 24), QuestionSpec(decide="works", margin=0.1)
    for one, said in ((often, "a (87.5 %) works"), (known, "a (87.5 %) does not work")):
        tables = [TableState(place=PLACE, methods=(base, one), chance=0.5)]
        assert said in look(works, tables).sentence


def test_methods_are_compared_with_the_one_that_is_named():
    methods = method("full", *[1.0] * 12), method("a", *[0.95] * 12), method("b", *[0.0] * 12)
    found = seen(WITHIN, *methods)
    assert found.ending == "answered"
    assert found.sentence == (
        "For most seeds, a (95.0 %) scores at most 50 points less than full (100.0 %); b (0.0 %) "
        "scores over 50 points less than full (100.0 %) (95 % confidence at every look, 12 seeds)."
    )


def test_exceeding_the_base_alone_is_not_enough_to_work():
    methods = method("frozen", *[0.0] * 12), method("a", *[0.5] * 12)
    (found,) = look(WORKS, [TableState(place=PLACE, methods=methods, chance=0.45)]).tables
    (goal,) = found.goals
    assert [one.shown for one in goal.ways[0]] == [True, False]
    assert not goal.settled
    assert [way[0].statement.kind for way in goal.ways] == ["exceeds", "exceeds", "below"]


def test_methods_differ_from_the_named_one_by_less_or_by_more_than_the_margin():
    (goal,) = seen(WITHIN, method("full", 1.0, 1.0), method("a", 0.5, 0.5)).tables[0].goals
    statements = [way[0].statement for way in goal.ways]
    assert [(one.first, one.second, one.by) for one in statements] == [
        ("a", "full", -0.5),
        ("full", "a", 0.5),
    ]


# plans


def test_every_method_begins_with_the_same_sweep():
    found = seen(BEST, untried("a"), untried("b"))
    assert [(one.method, one.kind, one.rates) for one in found.passes] == [
        ("a", "sweep", coarse(GRID)),
        ("b", "sweep", coarse(GRID)),
    ]
    assert {one.seeds for one in found.passes} == {(0, 1)}
    assert found.passes[0].replicate_steps == 2 * 4 * STEPS
    assert found.ending is None
    assert found.sentence == "No answer yet: a and b are being tuned or run for the first time."


def test_first_seeds_are_as_many_as_can_show_anything_and_none_of_a_sweep():
    found = seen(BEST, method("a"), untried("b"))
    assert new_seeds(found) == {"a": (2, 3, 4, 5, 6, 7), "b": (0, 1)}
    assert found.passes[0].reason == "Fewer than 6 seeds cannot show anything."
    four = seen(BEST, *(method(label) for label in "abcd"))
    assert {len(one.seeds) for one in four.passes} == {8}


def test_methods_that_are_still_compared_get_equal_seeds():
    methods = [
        method("a", *[0.9, 0.8, 0.9, 0.8, 0.9, 0.8, 0.9, 0.5]),
        method("b", *[0.5, 0.6, 0.5, 0.4, 0.5, 0.6, 0.5, 0.6]),
        method("c", *[0.0] * 8),
    ]
    found = seen(BEST, *methods)
    assert stages(found) == {"a": "compared", "b": "compared", "c": "out"}
    assert set(new_seeds(found)) == {"a", "b"}
    assert len(set(new_seeds(found).values())) == 1
    assert found.passes[0].seeds[0] == 10
    assert "should settle a and b" in found.passes[0].reason


def test_many_seeds_are_run_in_blocks():
    first = [*[0.9] * 8, *[0.1] * 2]
    found = seen(BEST, method("a", *first), method("b", *[0.6] * 10))
    assert found.tables[0].goals[0].needs == 28
    assert {label: len(seeds) for label, seeds in new_seeds(found).items()} == {"a": 8, "b": 8}


def test_nothing_is_run_that_would_settle_nothing():
    found = seen(BEST, method("a", *[0.9] * 7, *[0.1] * 3), method("b", *[0.6] * 10))
    assert (new_seeds(found), found.ending) == ({}, "limit")


def test_nothing_is_planned_while_a_pass_that_matters_is_open():
    later = [seeds("a", range(7, 10), state="open", number=2)]
    methods = method("a", *[0.9] * 5, later=later), method("b", *[0.5] * 5)
    found = seen(BEST, *methods)
    assert (found.passes, found.unneeded, found.ending) == ((), (), None)


def test_a_pass_of_a_method_that_is_out_is_not_needed():
    later = [seeds("c", range(10, 13), state="open", number=9)]
    close = method("b", *[0.5] * 7, 0.95)
    methods = [method("a", *[0.9] * 8), close]
    found = seen(BEST, *methods, method("c", *[0.0] * 8, later=later))
    assert found.unneeded == (9,)
    assert set(new_seeds(found)) == {"a", "b"}
    assert found.ending is None


def test_an_answer_makes_all_open_passes_unneeded():
    later = [seeds("a", range(10, 13), state="open", number=7)]
    found = seen(BEST, method("a", *[1.0] * 8, later=later), method("b", *[0.0] * 8))
    assert (found.ending, found.unneeded) == ("answered", (7,))


def test_seeds_of_a_dropped_pass_are_run_again():
    later = [seeds("a", range(7, 10), state="dropped", number=2)]
    methods = method("a", *[0.9] * 5, later=later), method("b", *[0.5] * 5)
    found = seen(BEST, *methods)
    assert found.passes[0].seeds[0] == 7
    # What was dropped costs nothing; sweeps cost 80 each, five seeds 50.
    assert found.replicate_steps == 2 * (80 + 50)


def test_a_failed_method_is_left_out_and_named():
    failed = untried("c").model_copy(update={"passes": (swept("c", state="failed"),)})
    found = seen(BEST, method("a", *[1.0] * 8), method("b", *[0.0] * 8), failed)
    assert found.ending == "answered"
    assert stages(found)["c"] == "failed"
    assert found.sentence.endswith("c could not be run, so nothing is said about it.")
    alone = seen(BEST, method("a", *[1.0] * 5), failed)
    assert (alone.ending, alone.passes) == ("given_up", ())


def test_a_failure_is_not_undone_by_a_pass_that_was_dropped():
    passes = swept("c", state="failed"), swept("c", state="dropped", number=1)
    failed = untried("c").model_copy(update={"passes": passes})
    assert stages(seen(BEST, untried("a"), untried("b"), failed))["c"] == "failed"
    again = failed.model_copy(update={"passes": (*passes, swept("c", number=2))})
    assert stages(seen(BEST, untried("a"), untried("b"), again))["c"] == "tuning"


def test_methods_without_a_difference_are_given_up():
    alike = [0.7] * 10
    found = seen(BEST, method("a", *alike), method("b", *alike))
    assert found.ending == "given_up"
    assert found.sentence.startswith(
        "Which of a (70.0 %) and b (70.0 %) is the best is not known with 10 seeds. Open: a and b; "
        "no number of seeds in reach is expected to settle it (evidence 0."
    )
    patient = seen(BEST, method("a", *alike[:5]), method("b", *alike[:5]))
    assert set(new_seeds(patient).values()) == {(7, 8)}


def test_the_limit_of_seeds_ends_a_question_and_is_named():
    few = QuestionSpec(at_most=QuestionLimits(seeds=5))
    methods = method("a", *[0.9] * 5), method("b", *[0.5] * 5)
    found = seen(few, *methods)
    assert (found.ending, found.passes) == ("limit", ())
    goal = found.tables[0].goals[0]
    assert goal.needs is not None
    assert goal.cost == (goal.needs - 5) * 2 * STEPS
    assert f"about {goal.needs} seeds would show that a scores" in found.sentence
    assert "more than the 5 allowed" in found.sentence
    assert {len(one) for one in new_seeds(seen(few, method("a"), method("b"))).values()} == {5}


def test_the_limits_of_jobs_and_hours_end_a_question():
    methods = method("a", *[0.9] * 5), method("b", *[0.5] * 5)
    jobs = QuestionSpec(at_most=QuestionLimits(jobs=4))
    assert (seen(jobs, *methods).ending, seen(jobs, *methods).passes) == ("limit", ())
    more = QuestionSpec(at_most=QuestionLimits(jobs=5))
    assert len(seen(more, *methods).passes) == 1
    hours = QuestionSpec(at_most=QuestionLimits(hours=2))
    assert (seen(hours, *methods, hours=2).ending, seen(hours, *methods).ending) == ("limit", None)
    answered = method("a", *[1.0] * 8), method("b", *[0.0] * 8)
    assert seen(hours, *answered, hours=9).ending == "answered"


def test_dropped_passes_do_not_count_as_jobs():
    later = [seeds("a", range(7, 10), state="dropped", number=2)]
    methods = method("a", *[0.9] * 5, later=later), method("b", *[0.5] * 5)
    five = QuestionSpec(at_most=QuestionLimits(jobs=5))
    assert [one.method for one in seen(five, *methods).passes] == ["a"]


def test_the_best_may_be_found_by_either_order_or_by_the_margin():
    methods = method("a", *[0.9] * 5), method("b", *[0.6] * 5)
    ways = seen(BEST, *methods).tables[0].goals[0].ways
    assert [(way[0].statement.first, way[0].statement.by) for way in ways] == [
        ("a", 0.0),
        ("b", 0.0),
        ("a", -0.01),
    ]
    without = seen(QuestionSpec(margin=0), *methods).tables[0].goals[0].ways
    assert len(without) == 2


def test_the_same_passes_give_the_same_look_in_any_order_of_methods():
    methods = [
        method("a", 0.9, 0.8, 0.0, 0.8, 0.9),
        method("b", 0.5, 0.6, 0.5, 0.4, 0.5),
        method("c", 0.1, 0.0, 0.3, 0.0, 0.0),
    ]
    first = seen(BEST, *methods)
    assert seen(BEST, *methods) == first
    for again in itertools.permutations(methods):
        found = seen(BEST, *again)
        assert new_seeds(found) == new_seeds(first)
        assert found.ending == first.ending
        assert found.tables[0].ruled_out == first.tables[0].ruled_out


def test_places_share_the_error_and_each_is_answered():
    answered = method("a", *[1.0] * 8), method("b", *[0.0] * 8)
    other = PLACE.model_copy(update={"task": "sort"})
    tables = [
        TableState(place=PLACE, methods=answered),
        TableState(place=other, methods=(untried("a"), untried("b"))),
    ]
    found = look(BEST, tables)
    assert [one.answered for one in found.tables] == [True, False]
    assert found.ending is None
    assert {one.place.task for one in found.passes} == {"sort"}
    assert found.tables[0].threshold == pytest.approx(2 * rule_of(BEST, 2, 1).threshold)
    assert found.sentence.startswith("reverse on base at 512: a (100.0 %) is the best")


def test_costs_before_anything_has_run():
    tables = [TableState(place=PLACE, methods=(untried("a"), untried("b")))]
    assert least_cost(BEST, tables) == 2 * (4 * 2 + 6) * STEPS
    assert most_cost(BEST, tables) == 2 * (4 * 2 + 30) * STEPS
    assert fixed_cost(BEST, tables) == 2 * 8 * 30 * STEPS
    ran = seen(BEST, method("a", *[1.0] * 5), method("b", *[0.0] * 5))
    assert ran.replicate_steps == 2 * (4 * 2 + 5) * STEPS
    assert ran.fixed_replicate_steps == 2 * 8 * 5 * STEPS


def test_two_labels_of_one_method_keep_their_own_scores():
    first, second = method("a", *[1.0] * 8), method("b", *[0.0] * 8)
    same = scores("lora", [0.0] * 8)
    mixed = second.model_copy(update={"scores": same})
    named = first.model_copy(update={"scores": scores("lora", [1.0] * 8)})
    assert seen(BEST, named, mixed).ending == "answered"


@pytest.mark.parametrize(
    ("margin", "text"), [(0.01, "1 point"), (0.005, "0.5 points"), (0.25, "25 points")]
)
def test_margins_are_points(margin: float, text: str):
    assert margin_text(margin) == text


def test_one_place_is_not_named():
    assert ending_sentence([(PLACE, "a is the best.")]) == "a is the best."
