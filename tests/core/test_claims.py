"""Verdicts of claims on tables that were made up.

Tests cover each of the four verdicts, and what keeps one away.
"""

from typing import Any

import pytest
from scipy.stats import binomtest
from tests.core.measuring import (
    AT_REST,
    CAN_BE_LEARNED,
    DOWN,
    FAILS,
    UP,
    a_claim_of,
    a_recipe,
    a_recipe_document,
    a_row,
    measured,
    on_descending,
    right,
    trials,
)

from adaptlab.reproductions.claim import (
    AllOf,
    CheckHolds,
    ClaimRole,
    ClaimTest,
    DeviationAtLeast,
    DeviationAtMost,
    EveryTrialAtMost,
    PaperClaim,
    RowSelector,
    ScoreAbove,
    ScoreAtLeast,
    ScoreAtMost,
    Wording,
    version_words,
)
from adaptlab.reproductions.claim_findings import ClaimFinding, Decision
from adaptlab.reproductions.claim_verdicts import claim_verdicts, decide
from adaptlab.reproductions.recipe import Recipe, TableColumn, chosen
from adaptlab.reproductions.recipe_report import recipe_report
from adaptlab.reproductions.recipe_results import (
    MeasuredCheck,
    RecipeMeasurements,
    RecipeRow,
    TrialScore,
)
from adaptlab.runs.theory_report import Check

LEARNS = ScoreAtLeast(row="prefix", column="descending", value=0.5)
AHEAD = ScoreAbove(row="full", column="descending", other="prefix", by=0.1)
EVERY = EveryTrialAtMost(row="prefix", value=0.01, trials=8)
PINNED = DeviationAtMost(row="prefix", value=1e-6)
MOVES = DeviationAtLeast(row="full", value=0.1)
HOLDS = Check.at_most("equation-6.random-1", "Equation 6.", 1e-16, 1e-12)
BREAKS = Check.at_most("equation-6.random-3", "Equation 6.", 0.2, 1e-12)


def found(test: ClaimTest, *rows: RecipeRow) -> Decision:
    return decide(test, a_recipe(test), measured(*rows))


def of_checks(test: CheckHolds, *checks: MeasuredCheck) -> Decision:
    return decide(test, a_recipe(test), RecipeMeasurements(checks=checks))


@pytest.mark.parametrize(
    ("counts", "finding"),
    [((0, 0, 0), "holds"), ((40, 50, 60), "fails"), ((3, 4, 5), "undecided")],
)
def test_a_score_is_held_against_its_whole_interval(
    counts: tuple[int, ...], finding: ClaimFinding
) -> None:
    """On the edge of the claimed share, nothing is decided.

    Of 400 items, 4 are the 1 % that is claimed.
    """
    assert found(FAILS, on_descending(*counts)).finding == finding


@pytest.mark.parametrize(
    ("counts", "finding"),
    [
        ((398, 400, 399), "holds"),
        ((0, 1, 2), "fails"),
        ((10, 200, 390), "undecided"),
    ],
)
def test_a_score_that_is_to_be_large_is_judged_from_the_other_side(
    counts: tuple[int, ...], finding: ClaimFinding
) -> None:
    assert found(LEARNS, on_descending(*counts, **AT_REST)).finding == finding


def test_the_evidence_names_the_figures_and_the_seeds() -> None:
    """400 wrong items of 400 leave at most 0.92 %.

    This is 1 - 0.025^(1/400), by Clopper and Pearson.
    """
    said = found(FAILS, on_descending(0, 0, 0)).evidence
    assert said == (
        "Prefix scores 0.0 % on descending (95 % interval 0.0 % to 0.92 %; "
        "3 seeds, 400 items each); claimed: at most 1.0 %."
    )


@pytest.mark.parametrize("counts", [(0,), (0, 0)])
def test_one_or_two_seeds_decide_nothing(counts: tuple[int, ...]) -> None:
    said = found(FAILS, on_descending(*counts))
    assert said.finding == "undecided"
    assert "too few (at least 3 are needed)" in said.evidence
    assert found(LEARNS, on_descending(*counts)).finding == "undecided"


def test_seeds_without_a_score_keep_the_others_from_deciding() -> None:
    """The two that are missing may be the two that learned it."""
    row = on_descending(0, 0, 0, seeds=(0, 1, 2, 3, 4), missing=("job 7 failed (diverged)",))
    said = found(FAILS, row)
    assert said.finding == "undecided"
    assert "2 of 5 seeds of prefix are not measured: job 7 failed (diverged)" in said.evidence


def test_what_is_not_there_is_not_measured() -> None:
    absent = found(FAILS)
    assert (absent.finding, absent.evidence) == (
        "not_measured",
        "Prefix is not part of this study.",
    )
    waiting = found(FAILS, a_row(missing=("job 7 is queued",)))
    assert waiting.finding == "not_measured"
    assert waiting.evidence == "Prefix has no score on descending yet: job 7 is queued."


def test_seeds_of_one_base_model_are_said_to_be() -> None:
    shared = right(0, 0, 0).model_copy(update={"bases": (0, 0, 0)})
    said = found(FAILS, a_row(scores=((DOWN, shared),)))
    assert "from only 1 trained base" in said.evidence


@pytest.mark.parametrize(
    ("full", "prefix", "finding"),
    [
        ((380, 390, 385, 388, 392), (0, 4, 2, 3, 1), "holds"),
        ((10, 12, 8, 9, 11), (0, 4, 2, 3, 1), "fails"),
        ((10, 380, 200, 40, 350), (0, 4, 2, 3, 1), "undecided"),
        ((0, 4, 2, 3, 1), (380, 390, 385, 388, 392), "reversed"),
        ((0, 4, 2, 3, 1), (0, 380, 20, 10, 5), "undecided"),  # one seed shows no opposite order
    ],
)
def test_a_difference_is_judged_by_the_interval_of_pairs(
    full: tuple[int, ...], prefix: tuple[int, ...], finding: ClaimFinding
) -> None:
    said = found(AHEAD, on_descending(*full, method="full", **AT_REST), on_descending(*prefix))
    assert said.finding == finding
    assert "5 seeds" in said.evidence


def test_several_orders_are_reversed_if_each_is() -> None:
    many, few = (380, 390, 385, 388, 392), (0, 4, 2, 3, 1)
    ahead, behind = (many, few), (few, many)
    back = ScoreAbove(row="prefix", column="descending", other="full", by=0.2)
    for (full, prefix), test, finding in (
        (behind, AllOf(tests=(AHEAD, AHEAD)), "reversed"),
        (behind, AllOf(tests=(AHEAD, back)), "fails"),
        (ahead, AllOf(tests=(AHEAD, back)), "fails"),
    ):
        rows = (
            on_descending(*full, method="full", **AT_REST),
            on_descending(*prefix, **AT_REST),
        )
        assert decide(test, a_recipe(), measured(*rows)).finding == finding


def test_rows_of_unlike_items_or_seeds_are_not_compared() -> None:
    few = a_row("full", scores=((DOWN, right(9, 9, 9, items=10)),))
    assert found(AHEAD, few, on_descending(0, 0, 0)).finding == "undecided"
    later = right(390, 390, 390).model_copy(update={"seeds": (7, 8, 9)})
    said = found(AHEAD, a_row("full", scores=((DOWN, later),)), on_descending(0, 0, 0))
    assert said.finding == "undecided"
    assert "no seed in common" in said.evidence


def every(*rows: tuple[TrialScore, ...], **changes: Any) -> Decision:
    ours = tuple(trial for row in rows for trial in row)
    return found(EVERY, a_row(trials=ours, **changes))


def test_every_trial_of_every_seed_is_looked_at() -> None:
    said = every(trials([[0] * 8, [0, 1, *[0] * 6], [0] * 8]))
    assert said.finding == "holds"
    assert "the best of 24 trials of prefix over 3 seeds" in said.evidence.lower()
    assert "(learning rate 0.001, seed 1)" in said.evidence


def test_one_trial_of_one_seed_refutes_a_cannot() -> None:
    """Also where its seed's others, and every other seed, have nothing right."""
    said = every(trials([[0] * 8, [0] * 7 + [320], [0] * 8]))
    assert said.finding == "fails"
    assert "50.0 %" in said.evidence
    assert every(trials([[0] * 7 + [320]])).finding == "fails"


def test_the_best_of_many_trials_is_not_taken_for_a_trial() -> None:
    """The best of 240 trials may well exceed 1 % by chance.

    14 of 640 exceed it by themselves.
    """
    alone = binomtest(14, 640).proportion_ci(0.95, method="exact")
    assert alone.low > 0.01 > binomtest(14, 640).proportion_ci(1 - 0.05 / 240, "exact").low
    rest = [[0] * 8 for _ in range(29)]
    assert every(trials([[0] * 7 + [14], *rest]), seeds=tuple(range(30))).finding == "undecided"
    single = EveryTrialAtMost(row="prefix", value=0.01)
    assert found(single, a_row(trials=trials([[14]]))).finding == "fails"


def test_a_trial_that_is_not_shown_to_be_small_decides_nothing() -> None:
    """2 of 640 leave 1.1 %; 2 of 1,280 leave 0.6 %."""
    assert binomtest(2, 640).proportion_ci(0.95, method="exact").high > 0.01
    assert every(trials([[0] * 8, [0] * 7 + [2], [0] * 8])).finding == "undecided"
    enough = trials([[0] * 8, [0] * 7 + [2], [0] * 8], total=1280)
    assert every(enough).finding == "holds"


def test_fewer_trials_than_the_claim_is_about_cannot_show_it() -> None:
    said = every(trials([[0] * 3, [0] * 8, [0] * 8]))
    assert said.finding == "undecided"
    assert "a seed has only 3 of the 8 trials" in said.evidence
    assert every(trials([[0] * 8])).finding == "undecided"


def test_trials_that_were_stopped_by_halving_show_nothing() -> None:
    eliminated = trials([[0] * 8 for _ in range(3)], status="eliminated")
    said = every(eliminated)
    assert said.finding == "undecided"
    assert "24 trials were eliminated" in said.evidence


def test_a_trial_that_diverged_has_learned_nothing_and_is_told() -> None:
    scored = trials([[0] * 7 for _ in range(3)])
    diverged = trials([[None] for _ in range(3)], status="diverged")
    said = every(scored, diverged)
    assert said.finding == "holds"
    assert "3 more diverged" in said.evidence
    only = tuple(trial for trial in diverged if trial.seed == 2)
    assert every(trials([[0] * 8, [0] * 8]), only * 8).finding == "undecided"


def test_without_any_trial_nothing_is_measured() -> None:
    assert every().finding == "not_measured"
    assert every(trials([[None] * 8], status="diverged")).finding == "not_measured"


@pytest.mark.parametrize(
    ("deviations", "finding"),
    [
        ({0: 1e-8, 1: 2e-8, 2: 0.0}, "holds"),
        ({0: 1e-8, 1: 0.3, 2: 0.0}, "fails"),
        ({0: 0.3}, "fails"),
        ({0: 1e-8}, "undecided"),
        ({}, "not_measured"),
    ],
)
def test_an_identity_is_refuted_by_one_seed(
    deviations: dict[int, float], finding: ClaimFinding
) -> None:
    assert found(PINNED, a_row(deviations=deviations)).finding == finding


@pytest.mark.parametrize(
    ("deviations", "finding"),
    [
        ({0: 0.4, 1: 0.5, 2: 0.9}, "holds"),
        ({0: 0.4, 1: 0.0, 2: 0.9}, "undecided"),
        ({0: 1e-8, 1: 0.0, 2: 0.0}, "fails"),
        ({}, "not_measured"),
    ],
)
def test_what_is_said_to_move_must_move_in_every_seed(
    deviations: dict[int, float], finding: ClaimFinding
) -> None:
    assert found(MOVES, a_row("full", deviations=deviations)).finding == finding


def test_a_check_holds_if_all_of_its_reports_do() -> None:
    holds = CheckHolds(check="identities")
    good = MeasuredCheck(check="identities", label="equations", reports=(HOLDS,))
    both = MeasuredCheck(check="identities", label="equations", reports=(HOLDS, BREAKS))
    other = MeasuredCheck(check="capacity", label="capacity", reports=(BREAKS,))
    assert of_checks(holds, good, other).finding == "holds"
    said = of_checks(holds, both)
    assert said.finding == "fails"
    assert (
        "1 of its 2 reports holds; equation-6.random-3 measured 0.2, claimed: at most 1e-12"
        in said.evidence
    )
    broken = MeasuredCheck(check="identities", label="equations", reports=(BREAKS,))
    assert "its report fails; " in of_checks(holds, broken).evidence
    assert "its report holds; " in of_checks(holds, good).evidence
    assert of_checks(holds, other).finding == "not_measured"
    assert of_checks(CheckHolds(check="equations"), both).finding == "fails"
    named = CheckHolds(check="identities", report="equation-6.random-1")
    assert of_checks(named, both).finding == "holds"


def test_a_check_of_trained_weights_needs_seeds_too() -> None:
    holds = CheckHolds(check="span", of=RowSelector(method="prefix"))
    one = MeasuredCheck(check="span", label="span", of=a_row(), seeds=1, reports=(HOLDS,))
    three = MeasuredCheck(check="span", label="span", of=a_row(), seeds=3, reports=(HOLDS,))
    elsewhere = MeasuredCheck(check="span", label="span", of=a_row("full"), reports=(BREAKS,))
    assert of_checks(holds, one, elsewhere).finding == "undecided"
    assert of_checks(holds, three, elsewhere).finding == "holds"


@pytest.mark.parametrize(
    ("low", "high", "finding"),
    [(0.10, 0.15, "holds"), (0.15, 0.25, "undecided"), (0.21, 0.30, "fails")],
)
def test_a_report_with_an_interval_is_decided_by_all_of_it(
    low: float, high: float, finding: ClaimFinding
) -> None:
    measured = (low + high) / 2
    report = Check.at_most("gap", "It is small.", measured, 0.2, low=low, high=high)
    check = MeasuredCheck(check="gap", label="gap", reports=(report,), seeds=3)
    said = of_checks(CheckHolds(check="gap"), check)
    assert said.finding == finding
    assert f"interval {low:.3g} to {high:.3g}" in said.evidence
    assert ("holds" in said.evidence) == (finding == "holds")


def test_reports_that_cannot_be_decided_are_not_counted_among_those_that_hold() -> None:
    reports = [
        Check.at_most("gap", "It is small.", measured, 0.2, low=low, high=high)
        for measured, low, high in ((0.1, 0.05, 0.15), (0.22, 0.15, 0.29))
    ]
    check = MeasuredCheck(check="gap", label="gap", reports=tuple(reports), seeds=3)
    said = of_checks(CheckHolds(check="gap"), check)
    assert said.finding == "undecided"
    assert "1 of its 2 reports holds, 1 is undecided" in said.evidence


def test_a_check_of_which_a_job_is_missing_is_not_decided() -> None:
    part = MeasuredCheck(
        check="span", label="span", reports=(HOLDS,), missing=("job 7 is running, at step 1 of 2",)
    )
    assert of_checks(CheckHolds(check="span"), part).finding == "undecided"


@pytest.mark.parametrize(
    ("prefix", "full", "finding"),
    [
        ((0,) * 5, (390, 395, 400, 392, 398), "holds"),
        ((0,) * 5, (0,) * 5, "fails"),
        ((3, 4, 5, 3, 4), (390, 395, 400, 392, 398), "undecided"),
        ((3, 4, 5), None, "not_measured"),
        ((90, 90, 90), None, "fails"),
    ],
)
def test_of_several_figures_all_are_needed_and_one_refutes(
    prefix: tuple[int, ...], full: tuple[int, ...] | None, finding: ClaimFinding
) -> None:
    both = AllOf(tests=(FAILS, AHEAD))
    rows = [on_descending(*prefix)]
    rows += [] if full is None else [on_descending(*full, method="full", **AT_REST)]
    assert found(both, *rows).finding == finding


def test_what_is_missing_is_told_once() -> None:
    said = found(AllOf(tests=(FAILS, LEARNS)), a_row(missing=("job 7 is queued",)))
    assert said.evidence == "Prefix has no score on descending yet: job 7 is queued."


@pytest.mark.parametrize(
    ("low", "high", "seeds", "finding"),
    [
        (0.1, 0.3, 3, "holds"),
        (-0.1, 0.3, 3, "undecided"),
        (-0.3, -0.1, 3, "reversed"),
        (-0.3, -0.1, 2, "undecided"),
        (-0.3, 0.005, 3, "fails"),
    ],
)
def test_an_order_that_a_check_finds_the_other_way_round_is_reversed(
    low: float, high: float, seeds: int, finding: ClaimFinding
) -> None:
    numbers = {"difference": (low + high) / 2, "low": low, "high": high, "opposite": 0.0}
    report = Check.at_least("more", "It is more.", low, 0.01, **numbers)
    check = MeasuredCheck(check="order", label="order", reports=(report,), seeds=seeds)
    said = of_checks(CheckHolds(check="order"), check)
    assert said.finding == finding
    assert f"more measured {(low + high) / 2:.3g} (95 % interval {low:.3g} to" in said.evidence


def test_the_two_versions_of_a_claim_are_decided_apart() -> None:
    """A rate that learned the task refutes "cannot".

    It was not the one that is chosen.
    """
    claim = PaperClaim(
        id="fails",
        wordings={
            "arxiv_v1": Wording(text="It cannot.", test=EVERY),
            "iclr": Wording(text="It may not.", test=FAILS),
        },
        controls=(CAN_BE_LEARNED,),
    )
    base, full = on_descending(0, 0, 0, method=None), on_descending(400, 400, 400, method="full")
    row = on_descending(0, 0, 0, trials=trials([[0] * 7 + [320], [0] * 8, [0] * 8]))
    recipe = a_recipe(claims=(claim, a_claim_of(FAILS, "same-in-both")))
    said = claim_verdicts(recipe, measured(base, full, row))
    assert [(one.claim, one.wording, one.finding) for one in said] == [
        ("fails", "arxiv_v1", "fails"),
        ("fails", "iclr", "holds"),
        ("same-in-both", "iclr", "holds"),
    ]


@pytest.mark.parametrize(
    ("versions", "alone", "role", "words"),
    [
        (["iclr"], True, "paper", "the paper"),
        (["arxiv_v1", "iclr"], True, "paper", "both versions"),
        (["arxiv_v1", "arxiv_v2", "iclr"], True, "paper", "all versions"),
        (["arxiv_v1", "iclr"], False, "paper", "as iclr"),
        (["arxiv_v1"], False, "paper", "iclr"),
        (["iclr"], True, "own", "ours"),
        (["iclr"], True, "premise", "premise"),
    ],
)
def test_a_wording_is_that_of_a_version_or_of_all(
    versions: list[str], alone: bool, role: ClaimRole, words: str
) -> None:
    labels = {name: f"as {name}" for name in versions}
    assert version_words("iclr", labels, alone=alone, role=role) == words


def test_a_column_is_found_by_the_knobs_that_it_names() -> None:
    longer = {**DOWN, "length": 5}
    row = a_row(scores=((UP, right(400, 400, 400)), (longer, right(9, 9, 9))))
    assert found(FAILS, row).finding == "not_measured"
    row = a_row(scores=((longer, right(400, 400, 400)), (DOWN, right(0, 0, 0))))
    assert found(FAILS, row).finding == "holds"


HISTOGRAM = {"name": "double_histogram", "length": 6, "alphabet": 5, "few_distinct": True}
"""Always answering 2 has 5.76 % of it right."""


@pytest.mark.parametrize(
    ("right_items", "finding"), [(230, "holds"), (310, "undecided"), (480, "fails")]
)
def test_a_failure_is_claimed_above_what_needs_no_skill(
    right_items: int, finding: ClaimFinding
) -> None:
    """230 of 4,000 are the floor, 310 are 2 points above it, 480 are 12 %."""
    row = a_row(task=HISTOGRAM, scores=((HISTOGRAM, right(*[right_items] * 5, items=4000)),))
    test = ScoreAtMost(row="prefix", column="histogram", value=0.02, above_floor=True)
    recipe = with_histogram()
    said = decide(test, recipe, measured(row))
    assert said.finding == finding
    assert "at most 7.8 %, 2 above the floor of 5.8 % (the best constant answer" in said.evidence
    without = test.model_copy(update={"value": 0.05, "above_floor": False})
    assert decide(without, recipe, measured(row)).finding != "holds"


def with_histogram() -> Recipe:
    document = a_recipe_document()
    table = document["tables"][0]
    column = TableColumn(label="histogram", task=chosen("double_histogram"))
    changed = table.model_copy(
        update={
            "columns": (*table.columns, column),
            "rows": tuple(row.model_copy(update={"published": ()}) for row in table.rows),
        }
    )
    return a_recipe(tables=(changed,))


def test_every_trial_is_held_against_the_floor_of_its_task_too() -> None:
    guessing = trials([[240] * 8 for _ in range(5)], total=4000)
    row = a_row(task=HISTOGRAM, trials=guessing, seeds=tuple(range(5)))
    above = EVERY.model_copy(update={"value": 0.02, "above_floor": True})
    assert found(above, row).finding == "holds"
    assert found(EVERY, row).finding == "fails"


def test_a_floor_that_is_next_to_nothing_is_not_said() -> None:
    longer = {**DOWN, "alphabet": 64}
    above = FAILS.model_copy(update={"above_floor": True})
    said = decide(above, a_recipe(), measured(a_row(scores=((longer, right(0, 0, 0)),))))
    assert said.evidence.endswith("claimed: at most 1.0 %.")


def test_the_floor_of_a_task_that_is_not_installed_is_not_known() -> None:
    gone = {**DOWN, "name": "sort_descending", "k": 3}
    above = FAILS.model_copy(update={"above_floor": True})
    said = found(above, a_row(task=gone, scores=((gone, right(0, 0, 0)),)))
    assert said.finding == "not_measured"
    assert "the floor of descending is not known" in said.evidence.lower()


def test_seeds_that_were_added_after_a_look_cost_confidence() -> None:
    """The lead is shown at 2.5 %, and not at a quarter of that."""
    full, prefix = (30, 34, 38, 42, 46), (24, 26, 28, 30, 31)
    first = on_descending(*full, method="full")
    test = ScoreAbove(row="full", column="descending", other="prefix", by=0.0)
    assert found(test, first, on_descending(*prefix)).finding == "holds"
    said = found(test, first, on_descending(*prefix, looks=4))
    assert said.finding == "undecided"
    assert "98.75 % interval (seeds were added 3 times)" in said.evidence
    again = found(FAILS, on_descending(0, 0, 0, looks=2))
    assert "97.5 % interval (seeds were added 1 time) 0.0 % to 1.1 %" in again.evidence


def test_of_many_tests_only_those_that_decide_are_told() -> None:
    at_least = [LEARNS.model_copy(update={"value": value}) for value in (0.1, 0.2, 0.3, 0.9)]
    row = measured(on_descending(200, 200, 200, **AT_REST))
    said = decide(AllOf(tests=tuple(at_least)), a_recipe(), row)
    assert said.finding == "fails"
    assert said.evidence.startswith("3 of 4 tests hold; Prefix scores 50.0 %")
    assert said.evidence.count("claimed") == 1
    every = decide(AllOf(tests=tuple(at_least[:3])), a_recipe(), row)
    assert every.evidence.startswith("3 of 3 tests hold; ")
    assert every.evidence.count("claimed") == 1


@pytest.mark.parametrize(
    ("role", "stand_in", "words"),
    [
        ("paper", None, "reproduced"),
        ("paper", "a small decoder trained here", "holds"),
        ("premise", None, "holds"),
        ("own", None, "holds"),
    ],
)
def test_only_claims_of_the_paper_at_its_settings_are_reproduced(
    role: ClaimRole, stand_in: str | None, words: str
) -> None:
    stand_ins = {} if stand_in is None else {"quick": stand_in}
    claims = (a_claim_of(FAILS, given=(), controls=(CAN_BE_LEARNED,), role=role),)
    recipe = a_recipe(claims=claims, stand_ins=stand_ins)
    full = on_descending(400, 400, 400, method="full")
    said = recipe_report(recipe, "quick", measured(on_descending(0, 0, 0), full))
    assert [said.words_of(one) for one in said.claims] == [words]
    assert said.summary().endswith(f": 1 {words}.")
    assert (f"in {stand_in}: " in said.summary()) == (stand_in is not None)


def test_a_row_that_fits_two_results_stands_for_neither() -> None:
    twice = (on_descending(0, 0, 0, budgets=(32,)), on_descending(0, 0, 0, budgets=(64,)))
    assert found(FAILS, *twice).finding == "not_measured"


def test_more_is_claimed_of_a_score_than_its_mean() -> None:
    """A mean below the claimed one is no reproduction if seeds differ.

    The mean of 1.0 % is below a claimed 1.1 %, with seeds that lie far apart.
    """
    loose = ScoreAtMost(row="prefix", column="descending", value=0.011)
    assert found(loose, on_descending(0, 0, 12)).finding == "undecided"
