"""Quantiles, and a document whose sections are replaced one by one."""

from bench.backlog import Drained
from bench.figures import HEAD, Figure, Section, document, quantile

ORDER = ("First", "Second")
FIRST = Section("First", "About the first.", (Figure("work", "peer", "1 ms", "2 ms"),))
SECOND = Section("Second", "About the second.", ())


def test_a_quantile_is_the_smallest_value_that_covers_its_share():
    values = [float(number) for number in range(100, 0, -1)]
    assert [quantile(values, share) for share in (0.5, 0.99, 1.0, 0.0)] == [50, 99, 100, 1]
    assert quantile([7.0], 0.99) == 7


def test_a_section_is_replaced_and_the_others_stay():
    whole = document("", [SECOND, FIRST], "a machine", ORDER)
    assert whole.startswith(HEAD)
    assert whole.index("## First") < whole.index("## Second")
    assert "| work | peer | 1 ms | 2 ms |" in whole
    anew = Section("First", "Anew.", FIRST.figures)
    again = document(whole, [anew], "another machine", ORDER)
    assert "About the first." not in again
    assert "Measured on: another machine" in again
    assert "Measured on: a machine" not in again
    assert "About the second." in again
    assert document(again, [], "nowhere", ORDER) == again


def test_a_section_that_there_is_no_more_is_left_out():
    assert "First" not in document(document("", [FIRST], "", ORDER), [], "", ORDER[1:])


def test_a_backlog_is_as_fast_as_its_last_job_and_as_flat_as_its_tenths():
    # One job a second, but the last tenth at half the pace.
    ends = [*range(1, 91), *range(92, 112, 2)]
    drained = Drained(submitted=100, ends=[float(end) for end in ends])
    assert drained.rate == 100 / 110
    assert drained.slowdown == 2.0
