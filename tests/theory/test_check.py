"""A check's verdict follows from what was measured and what was allowed."""

import pytest
from pydantic import ValidationError

from adaptlab.theory.check import Check, TheoryReport


@pytest.mark.parametrize(("measured", "verdict"), [(0.5, "holds"), (1.0, "holds"), (1.5, "fails")])
def test_a_deviation_may_reach_its_tolerance_and_no_more(measured: float, verdict: str):
    assert Check.at_most("one", "Equation 6.", measured, 1.0).verdict == verdict


@pytest.mark.parametrize(("measured", "verdict"), [(0.5, "fails"), (1.0, "holds"), (1.5, "holds")])
def test_what_must_be_seen_to_break_has_to_break_enough(measured: float, verdict: str):
    assert Check.at_least("one", "LoRA on queries breaks it.", measured, 1.0).verdict == verdict


def test_a_report_names_what_failed_and_survives_json():
    good = Check.at_most("good", "Equation 6.", 0, 0, cases=256, sizes=(1, 2.5), method="search")
    bad = Check.at_most("bad", "Equation 7.", 2, 1)
    report = TheoryReport(checks=(good, bad))
    assert report.failed == (bad,)
    assert TheoryReport.model_validate_json(report.model_dump_json()) == report


def test_a_deviation_that_is_no_number_is_refused():
    with pytest.raises(ValidationError):
        Check.at_most("one", "Equation 6.", float("nan"), 1.0)
