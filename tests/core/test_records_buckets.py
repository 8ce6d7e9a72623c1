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
    for first in range(0, sys.maxunicode + 1, 256):
        signs = [chr(first + offset) for offset in range(256)]
        own = [s for s in signs if unicodedata.normalize("NFKC", s).casefold() == s]
        kept = [(s, unicodedata.category(s)[0] in "LM" or s.isalnum()) for s in own]
        # Of all that are not kept, the words around them are left, and spaces end words too.
        expected = " ".join(f"1{sign}1" if is_kept else "1 1" for sign, is_kept in kept)
        assert normalised(" ".join(f"1{sign}1" for sign in own)) == expected, hex(first)


def test_values_spread_evenly_over_the_buckets():
    counts = [0] * BUCKETS
    for number in range(50 * BUCKETS):
        counts[bucket_of(f"text {number}")] += 1
    # Poisson with mean 50: five deviations on each side.
    assert min(counts) >= 15
    assert max(counts) <= 85
