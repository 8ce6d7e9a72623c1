"""Claims that a theory check has more for one row than for another."""

import pytest
from tests.core.measuring import a_recipe, a_row

from adaptlab.recipes.claim_builders import check_above
from adaptlab.reproductions.claim_findings import Decision
from adaptlab.reproductions.claim_tests import decide_test
from adaptlab.reproductions.recipe_results import MeasuredCheck, RecipeMeasurements, RecipeRow
from adaptlab.runs.theory_report import Check

MORE = check_above("prefix", "full", "intruders", "by_replicate", 2.0)
SEEDS = (0, 1, 2, 3, 4)


def a_check(row: RecipeRow, *counts: int, label: str = "first") -> MeasuredCheck:
    """A check of a row, with one count per seed."""
    report = Check.at_most(
        "number", "There are none.", sum(counts) / len(counts), 0.0,
        seeds=SEEDS[: len(counts)], by_replicate=counts,
    )  # fmt: skip
    return MeasuredCheck(check="intruders", label=label, of=row, reports=(report,))


def decided(prefix: tuple[int, ...], full: tuple[int, ...]) -> Decision:
    rows = [a_row(method, seeds=SEEDS) for method in ("prefix", "full")]
    checks = [a_check(row, *counts) for row, counts in zip(rows, (prefix, full), strict=True)]
    found = RecipeMeasurements(rows=tuple(rows), checks=tuple(checks))
    return decide_test(MORE, a_recipe(), found)


@pytest.mark.parametrize(
    ("prefix", "full", "finding"),
    [
        ((20, 22, 19, 21, 23), (3, 2, 4, 3, 1), "holds"),
        ((3, 2, 4, 3, 1), (20, 22, 19, 21, 23), "reversed"),
        ((2, 2, 2, 2, 2), (2, 2, 2, 2, 2), "fails"),
        ((20, 2, 19, 1, 23), (3, 2, 4, 3, 1), "undecided"),
    ],
)
def test_an_order_in_a_figure_of_a_check(
    prefix: tuple[int, ...], full: tuple[int, ...], finding: str
) -> None:
    assert decided(prefix, full).finding == finding


def test_the_evidence_has_both_means_and_the_difference() -> None:
    said = decided((20, 22, 19, 21, 23), (3, 2, 4, 3, 1)).evidence
    assert said.startswith(
        "Check intruders has 21 for prefix and 2.6 for full, a difference of 18.4 (95 % "
    )
    assert said.endswith("claimed: more than 2.")


def test_seeds_that_a_check_lacks_leave_the_order_undecided() -> None:
    found = decided((20, 22, 19, 21), (3, 2, 4, 3, 1))
    assert found.finding == "undecided"
    assert "1 of 5 seeds of prefix is not measured" in found.evidence


def test_a_row_that_the_check_did_not_measure_is_not_measured() -> None:
    rows = [a_row(method, seeds=SEEDS) for method in ("prefix", "full")]
    found = RecipeMeasurements(rows=tuple(rows), checks=(a_check(rows[0], *[20] * 5),))
    said = decide_test(MORE, a_recipe(), found)
    assert said.finding == "not_measured"
    assert said.evidence == "Check intruders has no report on full."
