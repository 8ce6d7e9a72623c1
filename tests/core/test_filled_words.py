"""Label words for encoders: what is read of them, and what is refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.texts import (
    CLASSIFICATION,
    MASK_OF_PIECES,
    a_word_piece_tokeniser,
    reviews,
    stored,
    without,
)

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.corpus import check_sample, read_corpus
from adaptlab.plugins.corpus_arrays import Corpus
from adaptlab.text.source import TextSource
from adaptlab.text.tokeniser import read_tokeniser

RECORDS = reviews(120)
PIECES = read_tokeniser(a_word_piece_tokeniser([r["text"] for r in RECORDS]), None)
BEGIN, END = 1, 2
WORDS: Mapping[str, str] = {"neg": " now sad", "pos": " now fine"}


def a_task(words: Mapping[str, str] = WORDS, **members: Any) -> dict[str, Any]:
    label = {"field": "label", "words": dict(words)}
    return without(CLASSIFICATION, **{"label": label, "tokens": {"longest": 40}, **members})


def corpus(folder: Path, task: dict[str, Any], mask: int | None = MASK_OF_PIECES) -> Corpus:
    data = stored(folder, RECORDS)
    source = TextSource(data.path, data.facts.digest, PIECES, mask=mask)
    return read_corpus(data.task(task).with_texts({source.digest: source}))


def refused(folder: Path, task: dict[str, Any], mask: int = MASK_OF_PIECES) -> tuple[Problem, ...]:
    """The problems for which a worker refuses a task, which a sample has too."""
    with pytest.raises(InvalidSpec) as caught:
        corpus(folder, task, mask)
    with pytest.raises(InvalidSpec) as sampled:
        check_sample(stored(folder, RECORDS).task(task), RECORDS, PIECES, mask)
    assert [p.code for p in sampled.value.problems] == [p.code for p in caught.value.problems]
    return caught.value.problems


def test_a_mask_for_each_token_and_the_end_of_a_text_are_read(tmp_path: Path):
    filled, continued = (corpus(tmp_path, a_task(), mask) for mask in (MASK_OF_PIECES, None))
    assert filled.behind == (MASK_OF_PIECES, MASK_OF_PIECES, END)
    assert continued.behind == ()
    assert filled.tokens == continued.tokens, "the answer is the same"
    first = filled.tokens[: filled.lengths[0]].tolist()
    prompt = f"{RECORDS[0]['text']}. It is"
    right = WORDS[RECORDS[0]["label"]]
    assert (*first, END) == PIECES.whole(prompt + right)
    assert first[0] == BEGIN


def test_the_end_of_a_text_counts_for_lengths(tmp_path: Path):
    longest = max(len(PIECES.whole(f"{r['text']}. It is{WORDS['neg']}")) for r in RECORDS)
    fitting = a_task(tokens={"longest": longest, "answer": 2})
    assert corpus(tmp_path, fitting).cut == 0
    tight = a_task(tokens={"longest": longest - 1, "answer": 2})
    (problem,) = refused(tmp_path, tight)
    assert (problem.code, problem.nearest) == ("items_too_long", (longest,))
    assert corpus(tmp_path, tight, None).behind == ()
    limits = {"longest": longest - 2, "answer": 2, "if_longer": "cut"}
    shortened = corpus(tmp_path, a_task(tokens=limits))
    assert shortened.cut > 0
    assert max(shortened.lengths) + 1 == longest - 2


def test_words_need_equally_many_tokens(tmp_path: Path):
    words = {"neg": " not at all", "pos": " fine"}
    (problem,) = refused(tmp_path, a_task(words))
    assert (problem.pointer, problem.code) == ("/task/label/words", "words_of_unequal_length")
    count = len(PIECES.tokens(". It is not at all").ids) - len(PIECES.tokens(". It is").ids)
    assert count > 1
    assert f"' not at all' ({count})" in problem.detail
    assert "' fine' (1)" in problem.detail
    assert "with equally many tokens, best one each" in problem.detail


def test_of_many_words_those_that_differ_are_named(tmp_path: Path):
    records = [{"text": f"a film {n}", "label": str(n % 20)} for n in range(120)]
    data = stored(tmp_path, records)
    words = {str(n): f" {n}" for n in range(20)} | {"19": " film film film"}
    task = a_task(words)
    with pytest.raises(InvalidSpec, match=r"' film film film' \(3\)") as caught:
        check_sample(data.task(task), records, PIECES, MASK_OF_PIECES)
    assert len(caught.value.problems[0].detail) < 500


@pytest.mark.parametrize("word", [" \N{SNOWMAN}", " [SEP]", " [MASK]"])
def test_a_special_token_is_no_word(tmp_path: Path, word: str):
    (problem,) = refused(tmp_path, a_task({"neg": word, "pos": " fine"}))
    assert (problem.pointer, problem.code) == ("/task/label/words", "special_word")
    assert repr(word) in problem.detail


def test_words_without_a_difference_are_refused(tmp_path: Path):
    (problem,) = refused(tmp_path, a_task({"neg": " Fine", "pos": " fine"}))
    assert (problem.pointer, problem.code) == ("/task/label/words", "word_twice")


def test_the_mask_is_not_written_into_the_prompt(tmp_path: Path):
    (problem,) = refused(tmp_path, a_task(prompt="{text} It is [MASK]"))
    assert (problem.pointer, problem.code) == ("/task/prompt", "mask_in_prompt")
    assert "Leave it out" in problem.detail


def test_a_mask_that_the_tokeniser_does_not_know_is_refused(tmp_path: Path):
    (problem,) = refused(tmp_path, a_task(), mask=40)
    assert (problem.pointer, problem.code) == ("/task", "no_mask")
    assert repr(PIECES.word(40)) in problem.detail


def test_warnings_name_words_of_several_tokens(tmp_path: Path):
    task = stored(tmp_path, RECORDS).task(a_task())
    several, alike = check_sample(task, RECORDS, PIECES, MASK_OF_PIECES)
    assert several == (
        "Label words of several tokens: ' now sad' (2), ' now fine' (2). The model fills in the "
        "tokens of a word without seeing one another."
    )
    assert alike == "The label words ' now sad' and ' now fine' begin with the same token."
    single = stored(tmp_path, RECORDS).task(a_task({"neg": " sad", "pos": " fine"}))
    assert check_sample(single, RECORDS, PIECES, MASK_OF_PIECES) == ()


def test_text_after_the_masks_is_read_as_written_there(tmp_path: Path):
    for after in (" now", "now 7", ""):
        filled = corpus(tmp_path, a_task(after=after))
        prompt = f"{RECORDS[0]['text']}. It is"
        asked = PIECES.whole(prompt)[:-1]
        assert (*asked, *filled.behind) == PIECES.whole(f"{prompt} [MASK] [MASK]{after}"), after


@pytest.mark.parametrize("after", [" [MASK]", " \N{SNOWMAN}", "[SEP]"])
def test_a_special_token_is_no_text_after_a_word(tmp_path: Path, after: str):
    (problem,) = refused(tmp_path, a_task(after=after))
    assert (problem.pointer, problem.code) == ("/task/after", "special_after")
    assert repr(after) in problem.detail


def test_text_after_counts_for_lengths(tmp_path: Path):
    longest = max(len(PIECES.whole(f"{r['text']}. It is{WORDS['neg']} now")) for r in RECORDS)
    fitting = a_task(after=" now", tokens={"longest": longest, "answer": 2})
    assert corpus(tmp_path, fitting).cut == 0
    tight = a_task(after=" now", tokens={"longest": longest - 1, "answer": 2})
    assert [one.code for one in refused(tmp_path, tight)] == ["items_too_long"]


def test_a_head_has_no_text_after_it(tmp_path: Path):
    members = {"score": "head", "label": {"field": "label"}, "tokens": {"longest": 40}}
    with pytest.raises(InvalidSpec) as caught:
        stored(tmp_path, RECORDS).task(without(CLASSIFICATION, after=".", **members))
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == ("/task/after", "after_no_word")
