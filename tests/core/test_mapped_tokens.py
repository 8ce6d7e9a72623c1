"""Tokens of one tokeniser as those of another."""

import pytest
from tests.texts import a_byte_pair_tokeniser, a_word_piece_tokeniser

from adaptlab.text.mapping import NotText, mapped
from adaptlab.text.tokeniser import ByteTokeniser, Tokeniser, read_tokeniser

TEXTS = ["a lovely song now", "an awful film about a road", "warm meal, cold walk"]
BYTES = ByteTokeniser()


@pytest.fixture(scope="module")
def pairs() -> Tokeniser:
    return read_tokeniser(a_byte_pair_tokeniser(TEXTS), 1)


@pytest.fixture(scope="module")
def pieces() -> Tokeniser:
    return read_tokeniser(a_word_piece_tokeniser(TEXTS), 2)


def test_the_text_stays_and_no_token_begins_or_ends_it(pairs: Tokeniser):
    text = " lovely film, né"
    tokens = mapped(tuple(text.encode()), BYTES, pairs)
    assert pairs.text(tokens) == text
    assert not {0, 1} & set(tokens)
    assert len(tokens) < len(text)
    assert mapped(tokens, pairs, BYTES) == tuple(text.encode())


def test_equal_tokenisers_keep_every_token(pairs: Tokeniser):
    strange = (0, 1, 300, 7, 7)
    assert mapped(strange, pairs, pairs) == strange
    assert mapped((256, 200), BYTES, ByteTokeniser()) == (256, 200)


def test_spaces_and_case_may_be_lost(pairs: Tokeniser, pieces: Tokeniser):
    tokens = mapped(tuple(b"  Lovely   song"), BYTES, pieces)
    assert pieces.text(tokens) == "lovely song"


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        ((97, 256), r"'\[end\]' \(token 256\) has no text"),
        ((97, 0xC3), "are not whole characters"),
        ((0xA9,), "are not whole characters"),
    ],
)
def test_tokens_that_are_no_text_are_refused(
    tokens: tuple[int, ...], reason: str, pairs: Tokeniser
):
    with pytest.raises(NotText, match=reason):
        mapped(tokens, BYTES, pairs)


def test_a_text_that_the_other_tokeniser_cannot_write_is_refused(
    pairs: Tokeniser, pieces: Tokeniser
):
    with pytest.raises(NotText, match="cannot write 'song ☃'"):
        mapped(tuple("song ☃".encode()), BYTES, pieces)
    with pytest.raises(NotText, match="cannot write '   '"):
        mapped((32, 32, 32), BYTES, pieces)
    with pytest.raises(NotText, match=r"cannot write 'a</s>'"):  # a text that is a special token
        mapped(tuple(b"a</s>"), BYTES, pairs)
