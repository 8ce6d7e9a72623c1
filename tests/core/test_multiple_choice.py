"""Choices with fields as tokens, and what is refused about them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.texts import (
    CLASSIFICATION,
    QUIZ,
    a_byte_pair_tokeniser,
    a_word_piece_tokeniser,
    joined,
    quizzes,
    reviews,
    stored,
    without,
)

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.corpus import check_sample, read_corpus
from adaptlab.plugins.corpus_arrays import Corpus
from adaptlab.specs.cost import work
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import PretrainSpec
from adaptlab.text.fitting import roles_of, task_document
from adaptlab.text.tokeniser import ByteTokeniser, Tokeniser, read_tokeniser

TEXTS = [f"{r['question']}. It is {r['a']} {r['b']} {r['c']}" for r in quizzes(80)]
BYTES = ByteTokeniser()
PAIRS = read_tokeniser(a_byte_pair_tokeniser(TEXTS), 1)
PIECES = read_tokeniser(a_word_piece_tokeniser(TEXTS), 1)


def words(**templates: str) -> dict[str, Any]:
    return {"field": "answer", "words": templates}


def corpus(
    folder: Path,
    records: Sequence[dict[str, str]],
    tokeniser: Tokeniser = BYTES,
    **changes: Any,
) -> Corpus:
    return read_corpus(stored(folder, records).task(without(QUIZ, **changes), tokeniser))


def refused(
    folder: Path, records: Sequence[dict[str, str]], *given: Any, **changes: Any
) -> Problem:
    with pytest.raises(InvalidSpec) as caught:
        corpus(folder, records, *given, **changes)
    (problem,) = caught.value.problems
    return problem


def with_wrong(change: dict[str, str], *places: int) -> list[dict[str, str]]:
    """Return records of which some are changed."""
    return [{**r, **(change if n in places else {})} for n, r in enumerate(quizzes(60))]


@pytest.mark.parametrize("tokeniser", [BYTES, PAIRS, PIECES], ids=["bytes", "pairs", "pieces"])
def test_choices_are_the_end_of_a_text_encoded_as_one(tokeniser: Tokeniser, tmp_path: Path):
    records = quizzes(60)
    found = corpus(tmp_path, records, tokeniser)
    assert found.choices == ()
    own, lengths = list(found.own), list(found.own_lengths)
    assert len(lengths) == 3 * len(records)
    at = start = 0
    for record, length, asked in zip(records, found.lengths, found.asked, strict=True):
        prompt = tuple(found.tokens[at : at + asked])
        assert found.labels[len(lengths) // 3 - len(records)] in (0, 1, 2)
        for name in "abc":
            size = lengths.pop(0)
            choice = tuple(own[start : start + size])
            text = f"{record['question']}. It is {record[name]}"
            assert prompt + choice == tokeniser.tokens(text).ids
            if name.upper() == record["answer"]:
                assert tuple(found.tokens[at + asked : at + length]) == choice
            start += size
        at += length


def test_a_word_without_fields_is_a_choice_of_every_record(tmp_path: Path):
    found = corpus(tmp_path, quizzes(60), label=words(A=" {a}", B=" {b}", C=" no {{thing}}"))
    fixed = " no {thing}"
    assert list(found.own_lengths[2::3]) == [len(fixed)] * 60
    assert joined(found.own[: sum(found.own_lengths[:3])]).endswith(fixed)


@pytest.mark.parametrize("empty", ["", "  "])
def test_empty_choices_are_refused_with_their_number_and_place(tmp_path: Path, empty: str):
    problem = refused(tmp_path, with_wrong({"b": empty}, 7, 9, 30))
    assert (problem.pointer, problem.code) == ("/task/label/words", "empty_choice")
    assert problem.detail.startswith("3 records have an empty choice; line 8 of the dataset is")


def test_equal_choices_are_refused_with_their_number_and_place(tmp_path: Path):
    problem = refused(tmp_path, with_wrong({"b": "same", "c": "same"}, 4, 5))
    assert (problem.pointer, problem.code) == ("/task/label/words", "equal_choices")
    assert problem.detail.startswith("2 records have two choices with the same text or the same")
    assert "line 5 of the dataset is the first" in problem.detail


def test_choices_that_a_tokeniser_makes_equal_are_refused(tmp_path: Path):
    change = {"b": "Same Song", "c": "same song"}
    assert refused(tmp_path, with_wrong(change, 4), PIECES).code == "equal_choices"
    corpus(tmp_path, with_wrong(change, 4), BYTES)


def test_label_words_that_a_tokeniser_makes_equal_are_refused(tmp_path: Path):
    label = {"field": "label", "words": {"neg": " Good", "pos": " good"}}
    task = stored(tmp_path, reviews(60)).task(without(CLASSIFICATION, label=label), PIECES)
    with pytest.raises(InvalidSpec, match="Two label words have the same tokens"):
        read_corpus(task)


@pytest.mark.parametrize("wrong", ["a", "b", "c"])
def test_any_choice_counts_for_the_limits(tmp_path: Path, wrong: str):
    change = {wrong: "x" * 40}
    problem = refused(tmp_path, with_wrong(change, 3))
    assert (problem.code, problem.nearest) == ("answers_too_long", (41,))
    problem = refused(tmp_path, with_wrong(change, 3), tokens={"longest": 50, "answer": 41})
    prompt = len(f"{quizzes(60)[3]['question']}. It is")
    assert (problem.code, problem.nearest) == ("items_too_long", (prompt + 41,))


def test_a_prompt_is_cut_so_that_the_longest_choice_fits(tmp_path: Path):
    limits = {"longest": 34, "answer": 12, "if_longer": "cut"}
    found = corpus(tmp_path, quizzes(60), tokens=limits)
    longest = [max(found.own_lengths[at : at + 3]) for at in range(0, 180, 3)]
    sizes = [asked + most for asked, most in zip(found.asked, longest, strict=True)]
    assert max(sizes) == 34
    assert found.cut > 0


def test_choices_that_change_the_tokens_of_the_prompt_are_refused(tmp_path: Path):
    """`It is` and `wer` would be other tokens than `It iswer`."""
    texts = [f"{text} Answer Ans" for text in TEXTS]
    tokeniser = read_tokeniser(a_byte_pair_tokeniser(texts), 1)
    assert len(tokeniser.tokens(" Answer").ids) == 2, "one token, after that of the beginning"
    problem = refused(
        tmp_path,
        with_wrong({"a": "wer now"}, 2),
        tokeniser,
        prompt="{question} Ans",
        label=words(A="{a}", B=" {b}", C=" {c}"),
        tokens={"longest": 60, "answer": 20},
    )
    assert (problem.pointer, problem.code) == ("/task/label/words", "label_word_varies")
    assert "1 prompts" in problem.detail


def test_text_of_a_record_is_no_template(tmp_path: Path):
    hostile = {"a": "{b} {{c}} {0.__class__}", "question": "{a} }{ {"}
    found = corpus(
        tmp_path,
        [{**record, **hostile} for record in quizzes(60)],
        tokens={"longest": 60, "answer": 30},
        splits={"by": "b"},
    )
    assert joined(found.own[: found.own_lengths[0]]) == " {b} {{c}} {0.__class__}"
    assert joined(found.tokens[: found.asked[0]]) == "{a} }{ {. It is"


def test_a_sample_warns_of_what_own_choices_cost(tmp_path: Path):
    task = stored(tmp_path, quizzes(60)).task(QUIZ)
    (warning,) = check_sample(task, quizzes(20), BYTES)
    assert warning.startswith("Label words have fields, so each choice needs a forward pass")
    with pytest.raises(InvalidSpec, match="2 records have an empty choice"):
        check_sample(task, with_wrong({"a": ""}, 1, 2), BYTES)


def test_many_choices_are_read(tmp_path: Path):
    names = [f"o{n}" for n in range(32)]
    records = [
        {"q": f"q {n}", **{name: f"{name} {n}" for name in names}, "y": names[n % 32]}
        for n in range(96)
    ]
    records = [{name: r[name] for name in ("q", *names[:30], "y")} for r in records]
    label = {"field": "y", "words": {n: f" {{{n}}}" if n in records[0] else f" {n}" for n in names}}
    found = corpus(tmp_path, records, prompt="{q}:", label=label)
    assert len(found.own_lengths) == 32 * 96
    assert sorted(set(found.labels)) == list(range(32))


def test_the_task_of_labels_with_braces_keeps_them_as_text(tmp_path: Path):
    records = [{"text": f"a text {n}", "label": ("{x}", "}")[n % 2]} for n in range(40)]
    data = stored(tmp_path, records)
    roles = roles_of(data.facts)
    assert roles is not None
    task = data.task(task_document(data.facts, roles))
    assert task.listed_answers() == {"{x}": " {x}", "}": " }"}


def test_every_own_choice_counts_as_a_pass_of_scoring(tmp_path: Path):
    data = stored(tmp_path, quizzes(60))
    fixed = words(A=" {{a}}", B=" {{b}}", C=" {{c}}")
    spec = {"name": "base", "family": {"name": "minigpt", "layers": 1, "heads": 2, "width": 8}}
    own, same = (
        work(resolve(PretrainSpec.model_validate({**spec, "task": task}), None, data.datasets))
        for task in (dict(QUIZ), without(QUIZ, label=fixed))
    )
    assert own.evaluation.flops == 4 * same.evaluation.flops > 0
    assert own.memory_bytes == same.memory_bytes


def test_a_word_without_fields_must_have_the_same_tokens_everywhere(tmp_path: Path):
    tokeniser = read_tokeniser(a_byte_pair_tokeniser([f"{text} Answer Ans" for text in TEXTS]), 1)
    problem = refused(
        tmp_path,
        with_wrong({"question": "what Ans"}, 5, 6),
        tokeniser,
        prompt="{question}",
        label=words(A="wer {a}", B="wer {b}", C="wer no"),
        tokens={"longest": 60, "answer": 20},
    )
    assert (problem.pointer, problem.code) == ("/task/label/words", "label_word_varies")
    assert "After 2 prompts a label word has other tokens" in problem.detail
    assert "line 6 of the dataset is the first" in problem.detail


def calibrated(folder: Path, tokeniser: Tokeniser, **changes: Any) -> Corpus:
    task = without(CLASSIFICATION, calibration="empty_input", **changes)
    return read_corpus(stored(folder, reviews(60)).task(task, tokeniser))


def test_the_empty_prompt_is_encoded_with_the_words(tmp_path: Path):
    label = {"field": "label", "words": {"neg": " neg", "pos": " pos"}}
    for tokeniser in (BYTES, PAIRS):
        found = calibrated(tmp_path, tokeniser, label=label, tokens={"longest": 60})
        for word, tokens in zip((" neg", " pos"), found.choices, strict=True):
            assert (*found.empty, *tokens) == tokeniser.tokens(f". It is{word}").ids
    own = corpus(tmp_path, quizzes(60), PAIRS, calibration="empty_input")
    assert own.empty == found.empty


def test_a_prompt_that_is_empty_without_fields_cannot_calibrate(tmp_path: Path):
    with pytest.raises(InvalidSpec) as caught:
        calibrated(tmp_path, BYTES, prompt="{text}")
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == ("/task/calibration", "no_empty_prompt")
    # A token that begins every text is enough.
    found = calibrated(tmp_path, PAIRS, prompt="{text}", tokens={"longest": 40})
    assert len(found.empty) == 1


def test_words_with_other_tokens_after_the_empty_prompt_are_refused(tmp_path: Path):
    texts = [f"{text} Answer Ans" for text in TEXTS]
    tokeniser = read_tokeniser(a_byte_pair_tokeniser(texts), 1)
    problem = refused(
        tmp_path,
        with_wrong({}),
        tokeniser,
        prompt=" Ans{question}",
        label=words(A="wer {a}", B="wer {b}", C="wer {c}"),
        tokens={"longest": 60, "answer": 20},
        calibration="empty_input",
    )
    assert (problem.pointer, problem.code) == ("/task/calibration", "label_word_varies")
    assert problem.detail.startswith("In 60 records a label word has other tokens")


def test_calibration_counts_as_a_pass_per_own_choice(tmp_path: Path):
    data = stored(tmp_path, quizzes(60))
    assert data.task(QUIZ).passes_of_choices() == 3
    assert data.task(without(QUIZ, calibration="empty_input")).passes_of_choices() == 6
