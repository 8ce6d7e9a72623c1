"""The report of the constructions, at its small size."""

import pytest

from adaptlab.reproductions.claim import CheckHolds
from adaptlab.reproductions.recipe_study import recipe_named
from adaptlab.theory.check import TheoryReport
from adaptlab.theory.theorems import theorems


@pytest.fixture(scope="module")
def report() -> TheoryReport:
    return theorems("small")


def test_the_small_report_holds_and_says_what_was_tried(report: TheoryReport):
    assert report.failed == ()
    by_name = {check.name: check for check in report.checks}
    assert len(by_name) == len(report.checks)
    sequences, maps = by_name["theorem-1-unconditional"], by_name["theorem-2-conditional"]
    assert sequences.details["V=4 n_X=0 n_Y=4 all"] == 4**4
    assert maps.details["V=5 n_X=1 n_Y=1 all"] == 5**5 * 5
    assert by_name["longer-questions"].details["V=2 n_X=2 n_Y=1 all"] == 2**4 * 4
    assert by_name["soft-first-tokens-of-theorem-1"].measured == 4**4
    assert TheoryReport.model_validate_json(report.model_dump_json()) == report


def test_the_claims_of_the_theorems_name_reports_that_there_are(report: TheoryReport):
    recipe = recipe_named("petrov2024/theorems")
    named = {test.report for test in recipe.tests() if isinstance(test, CheckHolds)}
    assert named <= {check.name for check in report.checks}
