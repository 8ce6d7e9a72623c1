"""Buckets of values: equal and nearly equal texts are in the same one."""

import sys
import unicodedata

import pytest

from adaptlab.records.buckets import BUCKETS, bucket_of, normalised

NEAR = [
    ("A fine film.", "a  fine FILM"),
    ("\u00e9t\u00e9", "E\u0301te\u0301"),
    ("\ufb01ne \uff21", "fine a"),
    ("stra\u00dfe", "STRASSE"),
    ("isn't it?", "isn’t, it"),
]


@pytest.mark.parametrize(("one", "other"), NEAR)
def test_nearly_equal_values_share_a_bucket(one: str, other: str):
    assert normalised(one) == normalised(other)
    assert bucket_of(one) == bucket_of(other)


def test_a_value_without_letters_is_its_own_form():
    assert normalised(" ?! ") == "?!"
    assert normalised("  ") == ""
    assert normalised("?") != normalised("!")


def test_of_all_characters_letters_digits_and_marks_stay():
    for code in range(sys.maxunicode + 1):
        sign = chr(code)
        if unicodedata.normalize("NFKC", sign).casefold() != sign or sign.isspace():
            continue
        is_kept = unicodedata.category(sign)[0] in "LM" or sign.isalnum()
        assert normalised(f"1{sign}1") == (f"1{sign}1" if is_kept else "1 1"), hex(code)


def test_values_spread_evenly_over_the_buckets():
    counts = [0] * BUCKETS
    for number in range(50 * BUCKETS):
        counts[bucket_of(f"text {number}")] += 1
    # Poisson with mean 50: five deviations on each side.
    assert min(counts) >= 15
    assert max(counts) <= 85
