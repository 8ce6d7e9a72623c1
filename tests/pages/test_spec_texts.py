"""Whole numbers of a form, with and without separators between thousands."""

import pytest

from adaptlab_api.pages.submitting.spec_texts import read


@pytest.mark.parametrize("text", ["10000", "10,000", "10 000", "10_000", "10\u202f000"])
def test_a_whole_number_may_separate_its_thousands(text: str) -> None:
    assert read("integer", text) == 10_000


@pytest.mark.parametrize("text", ["1,00", "1,0000", ",000", "1,000,00", "1,5"])
def test_another_comma_is_no_separator(text: str) -> None:
    assert read("integer", text) == text


def test_in_a_list_a_comma_is_between_numbers() -> None:
    assert read("numbers", "512, 4096") == [512, 4096]
    assert read("integers", "0,1,2") == [0, 1, 2]
