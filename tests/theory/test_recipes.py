"""That the reports which recipes name are those that theory checks give."""

from adaptlab.claim import CheckHolds
from adaptlab.recipe_study import recipe_named
from adaptlab.theory.theorems import theorem_checks


def test_the_claims_of_the_theorems_name_reports_that_there_are() -> None:
    recipe = recipe_named("petrov2024/theorems")
    named = {test.report for test in recipe.tests() if isinstance(test, CheckHolds)}
    assert named <= {report.name for report in theorem_checks("small")}
