"""Cases of which the cause is known.

There is no false reach, and true reach is found.

The real ones are read from what `python -m bench.diagnosis_runs` trained.
"""

import pytest

from adaptlab.comparisons.diagnosis import Cause
from bench.diagnoses import MARKER, PAGE, Case, cases, table

CASES = cases()


def said() -> list[tuple[Case, Cause]]:
    return [(case, case.diagnosis().cause) for case in CASES]


def test_there_are_enough_cases_of_either_kind():
    assert len(CASES) >= 40
    assert sum(case.is_real for case in CASES) >= 20
    assert sum(case.truth == "reach" for case in CASES) >= 10
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_else_is_called_reach(case: Case):
    assert case.diagnosis().cause != "reach" or case.truth == "reach"


def test_four_of_five_cases_of_reach_are_found():
    found = [cause for case, cause in said() if case.truth == "reach"]
    assert found.count("reach") >= 0.8 * len(found)


def test_no_failure_is_given_another_failures_cause():
    wrong = {
        (case.name, cause)
        for case, cause in said()
        if cause not in ("undecided", "none", case.truth)
    }
    assert wrong == set()


def test_the_page_shows_the_table_as_it_is():
    assert PAGE.read_text().partition(MARKER)[2].strip() == table(said())
