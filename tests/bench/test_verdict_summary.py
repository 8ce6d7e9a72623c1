"""The summary of simulated verdicts keeps the worst shares."""

from bench.verdict_summary import Line, summary

EQUAL = Line("equal", 5, ["0.000", "0.030", "0.000", "0.030", "0.040", "0.090", "–", "–", "2.0"])
OTHER = Line("other", 5, ["0.010", "0.060", "0.000", "0.030", "0.020", "0.010", "–", "–", "2.0"])
BEST = Line("one best", 5, ["0.000", "0.000", "0.950", "0.970", "0.050", "0.040", "–", "–", "1.0"])


def test_the_worst_share_of_a_kind_is_of_its_worst_case() -> None:
    text = summary({"a kind": [EQUAL, OTHER]}, [BEST])
    assert "| a kind | 5 | 2 | 0.010 | 0.060 | 0.040 | 0.090 | – | – |" in text


def test_power_is_next_to_the_paired_t_test() -> None:
    assert "| one best | 0.950 / 0.970 |" in summary({}, [BEST])


def test_a_case_with_an_extreme_share_is_named() -> None:
    text = summary({"a kind": [EQUAL, OTHER]}, [BEST])
    assert "| equal | 5 | differences missed 0.090 |" in text
    assert "| other | 5 |" not in text
