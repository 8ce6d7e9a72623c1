"""Prompts and answers as tokens: encoded together, and cut where asked."""

from pathlib import Path
from typing import Any

import pytest
from tests.texts import (
    CLASSIFICATION,
    COMPLETION,
    a_byte_pair_tokeniser,
    a_word_piece_tokeniser,
    byte_pairs,
    reviews,
    stored,
    without,
)
from transformers import PreTrainedTokenizerFast

from adaptlab.errors import BadDataset, BadModelFolder, InvalidSpec
from adaptlab.plugins.corpus import check_sample, read_corpus
from adaptlab.plugins.corpus_arrays import Corpus
from adaptlab.tasks.neutral_text import NeutralText
from adaptlab.text.encoding import LeavesNothing, cut, encoded
from adaptlab.text.folder_tokeniser import stated_end
from adaptlab.text.template import parsed
from adaptlab.text.tokeniser import ByteTokeniser, read_tokeniser

TEXTS = [f"{r['text']}. It is {r['label']} Answer" for r in reviews(200)] + ["Grüße, 中文 €"]
PAIRS, PIECES = a_byte_pair_tokeniser(TEXTS), a_word_piece_tokeniser(TEXTS)
BYTES = ByteTokeniser()


def of_library(content: bytes, folder: Path) -> PreTrainedTokenizerFast:
    file = folder / "tokenizer.json"
    file.write_bytes(content)
    return PreTrainedTokenizerFast(tokenizer_file=str(file))


@pytest.mark.parametrize("content", [PAIRS, PIECES], ids=["pairs", "pieces"])
def test_tokens_are_those_of_transformers_without_the_end(content: bytes, tmp_path: Path):
    theirs = of_library(content, tmp_path)
    ours = read_tokeniser(content, 1)
    for text in ["a fine film now 7", "Grüße, 中文 €", "  two  spaces ", "x"]:
        expected: Any = theirs(text, return_offsets_mapping=True)
        tokens = ours.tokens(text)
        assert list(tokens.ids) == expected["input_ids"][:-1], text
        spans = expected["offset_mapping"][1:-1]
        found = list(zip(tokens.starts, tokens.ends, strict=True))[1:]
        assert found == spans, text
    assert ours.vocabulary == len(theirs)


def test_what_a_file_says_about_length_is_not_used():
    plain, spoiled = (
        read_tokeniser(a_byte_pair_tokeniser(TEXTS, spoiled=is_spoiled), 1)
        for is_spoiled in (False, True)
    )
    assert plain.digest != spoiled.digest
    for text in (" ".join(TEXTS[:20]), "x"):
        assert spoiled.tokens(text) == plain.tokens(text)


def test_bytes_have_the_places_of_their_characters():
    tokens = BYTES.tokens("aé€")
    assert bytes(tokens.ids) == "aé€".encode()
    assert (tokens.starts, tokens.ends) == ((0, 1, 1, 2, 2, 2), (1, 2, 2, 3, 3, 3))
    assert BYTES.text((*tokens.ids, 256)) == "aé€"
    assert BYTES.text(tokens.ids[:2]) == "a\ufffd"


def test_prompt_and_answer_are_encoded_as_one_text():
    tokeniser = read_tokeniser(PAIRS, 1)
    item = encoded(tokeniser, "a fine film. It is ", "pos", ends=False)
    assert item.prompt + item.answer == tokeniser.tokens("a fine film. It is pos").ids
    assert tokeniser.text(item.answer) == " pos", "the space belongs to the answer"
    assert not item.joins
    apart = tokeniser.tokens("a fine film. It is ").ids
    assert item.prompt != apart


def test_an_answer_without_a_token_of_its_own_is_refused():
    tokeniser = read_tokeniser(PAIRS, 1)
    assert len(tokeniser.tokens(" Answer").ids) == 2, "one token, after that of the beginning"
    with pytest.raises(LeavesNothing, match="answer has no token of its own"):
        encoded(tokeniser, "pos Ans", "wer", ends=True)
    with pytest.raises(LeavesNothing, match="No token of the prompt"):
        encoded(BYTES, "", "x", ends=True)
    joined = encoded(tokeniser, "pos Ans", "wer now", ends=True)
    assert joined.joins
    assert joined.answer[-1] == 1


def test_space_before_a_neutral_text_never_joins_the_line_feed():
    code = [f"\n    return {n}" for n in range(200)]
    tokeniser = read_tokeniser(byte_pairs(code).to_str().encode(), None)
    with pytest.raises(LeavesNothing, match="No token of the prompt"):
        encoded(tokeniser, "\n", "    return 7", ends=False)
    task = NeutralText(dataset="manual")
    item = encoded(tokeniser, "\n", task.answer_text({"text": "    return 7"}), ends=False)
    assert tokeniser.text(item.answer) == "return 7"


def test_the_end_of_a_text_is_that_of_the_configuration():
    assert stated_end("config.json", {"eos_token_id": 2}) == 2
    assert stated_end("config.json", {"eos_token_id": [5, 2]}) == 5
    for other in ({}, {"eos_token_id": None}, {"eos_token_id": []}):
        assert stated_end("config.json", other) is None
    with pytest.raises(BadModelFolder, match=r"eos_token_id of config\.json is true"):
        stated_end("config.json", {"eos_token_id": True})


def test_a_file_that_is_no_tokeniser_is_refused():
    for content in (b"", b"[]", b"\xff", b'{"version": "1.0"}'):
        with pytest.raises(BadModelFolder, match=r"tokenizer\.json cannot be read"):
            read_tokeniser(content, None)


@pytest.mark.parametrize(("keep", "left"), [("start", "aa bb"), ("end", "cc dd")])
def test_a_field_is_cut_at_one_end(keep: Any, left: str):
    prompt = parsed("Text: {text}!").rendered({"text": "aa bb cc dd"})
    assert cut(BYTES, prompt, "text", keep, 6) == (left if keep == "end" else "aa bb")
    assert cut(BYTES, prompt, "text", keep, 99) == ""
    empty = parsed("Text: {text}!").rendered({"text": ""})
    assert cut(BYTES, empty, "text", keep, 1) is None


def corpus(folder: Path, document: dict[str, Any], content: bytes | None = PAIRS) -> Corpus:
    data = stored(folder, reviews(120))
    tokeniser = BYTES if content is None else read_tokeniser(content, 1)
    return read_corpus(data.task(document, tokeniser))


WORDS = {"field": "label", "words": {"neg": " neg", "pos": " pos"}}


@pytest.mark.parametrize("keep", ["start", "end"])
def test_long_items_are_cut_to_the_limit(tmp_path: Path, keep: str):
    limits = {"longest": 20, "answer": 1, "if_longer": "cut", "cut": {"keep": keep}}
    found = corpus(tmp_path, without(CLASSIFICATION, tokens=limits), None)
    lengths = [len(f"{r['text']}. It is-") for r in reviews(120)]
    assert found.cut == sum(length > 20 for length in lengths) > 0
    assert max(found.lengths) == 20
    assert BYTES.text(tuple(found.tokens[: found.lengths[0]])).endswith((". It is-", ". It is+"))


def test_a_template_that_is_too_long_by_itself_is_refused(tmp_path: Path):
    limits = {"longest": 6, "answer": 1, "if_longer": "cut"}
    with pytest.raises(InvalidSpec) as caught:
        corpus(tmp_path, without(CLASSIFICATION, tokens=limits), None)
    assert [problem.code for problem in caught.value.problems] == ["items_too_long"]


def test_label_words_of_more_tokens_than_allowed_are_refused(tmp_path: Path):
    words = {"field": "label", "words": {"neg": " not good at all", "pos": " pos"}}
    with pytest.raises(InvalidSpec) as caught:
        corpus(tmp_path, without(CLASSIFICATION, label=words))
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == ("/task/tokens/answer", "answers_too_long")
    (needed,) = problem.nearest
    assert int(needed) > 1


def test_a_label_word_that_joins_the_prompt_is_refused(tmp_path: Path):
    document = without(
        CLASSIFICATION, prompt="{text} p", label=without(WORDS, words={"neg": "eg", "pos": "os"})
    )
    with pytest.raises(InvalidSpec) as caught:
        corpus(tmp_path, document)
    assert {problem.code for problem in caught.value.problems} <= {
        "no_own_tokens",
        "label_word_varies",
        "answers_too_long",
    }


def test_a_sample_is_checked_like_the_whole(tmp_path: Path):
    data, tokeniser = stored(tmp_path, reviews(120)), read_tokeniser(PAIRS, 1)
    words = {"field": "label", "words": {"neg": " not now", "pos": " not"}}
    task = data.task(without(CLASSIFICATION, label=words, tokens={"longest": 60, "answer": 8}))
    several, alike = check_sample(task, reviews(120)[:20], tokeniser)
    assert several.startswith("Label words of several tokens: ' not now' (")
    assert alike == "The label words ' not now' and ' not' begin with the same token."
    assert check_sample(data.task(without(CLASSIFICATION, label=WORDS)), [], tokeniser) == ()
    short = data.task(without(CLASSIFICATION, label=words, tokens={"longest": 9, "answer": 8}))
    with pytest.raises(InvalidSpec) as caught:
        check_sample(short, reviews(120)[:20], tokeniser)
    assert caught.value.problems[0].detail.startswith("20 of 20 items have more than 9 tokens")


def test_answers_end_with_the_token_that_ends_a_text(tmp_path: Path):
    found = corpus(tmp_path, without(COMPLETION, tokens={"longest": 80, "answer": 12}))
    ends = [sum(found.lengths[: place + 1]) - 1 for place in range(len(found.lengths))]
    assert {found.tokens[end] for end in ends} == {1}


def test_other_content_than_the_tasks_is_refused(tmp_path: Path):
    data = stored(tmp_path, reviews(120))
    task = data.task(CLASSIFICATION)
    data.path.write_bytes(data.path.read_bytes().replace(b"film", b"book"))
    with pytest.raises(BadDataset, match="SHA-256"):
        read_corpus(task)
    with pytest.raises(BadDataset, match="not available here"):
        read_corpus(task.with_texts({}))
