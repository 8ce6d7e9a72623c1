"""Recorded attention over texts of different lengths."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.engine.text_models import HEAD_TASK, folder_maker, head_job
from tests.texts import CLASSIFICATION, COMPLETION, Stored, reviews, stored, without

from adaptlab.engine.models.library_model import Float64
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import AnswersGiven, AttentionCaptured, ItemsShown
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab.text.tokeniser import ByteTokeniser, read_tokeniser
from adaptlab.theory.attention import entropy
from adaptlab.weights.model_folder import check_folder
from adaptlab.weights.placed_folder import PlacedFolder

SAMPLES = 5
HALF = 1e-3  # half a unit of a float16 below 1, and a little
WORDS = {"field": "label", "words": {"neg": " bad", "pos": " quite good"}}
TASKS: dict[str, dict[str, Any]] = {
    "head": dict(HEAD_TASK),
    "signs": without(CLASSIFICATION, tokens={"longest": 40}),
    "words": without(CLASSIFICATION, label=WORDS, tokens={"longest": 52, "answer": 11}),
    "calibrated": without(
        CLASSIFICATION,
        label=WORDS,
        tokens={"longest": 52, "answer": 11},
        calibration="empty_input",
    ),
    "filled": without(
        CLASSIFICATION,
        label={"field": "label", "words": {"neg": " now sad", "pos": " now fine"}},
        tokens={"longest": 40},
        calibration="empty_input",
    ),
    "completion": without(COMPLETION, tokens={"longest": 56, "answer": 8}),
}
CASES = (
    ("bert-alone", "head"),
    ("modernbert", "head"),
    ("qwen3", "head"),
    ("qwen3", "signs"),
    ("gemma2", "words"),
    ("qwen3", "calibrated"),
    ("qwen3", "completion"),
    ("bert", "filled"),
    ("modernbert", "filled"),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), reviews(160))


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], PlacedFolder]:
    return folder_maker(tmp_path_factory.mktemp("models"))


def recorded(
    data: Stored, folder: PlacedFolder, task: str, scratch: Path, method: str = "lora"
) -> tuple[ResolvedAdapt, Remembering]:
    """Run a job that records attention."""
    spec = head_job(
        data,
        check_folder(folder.path).family,
        task=TASKS[task],
        method=method,
        budget={"trainable_parameters": 700},
        capture={"attention": {"samples": SAMPLES}},
        evaluation={"samples": 12, "shown": SAMPLES},
    )
    watching = Remembering()
    run(spec, (), scratch, watching, "cpu", folder=folder, datasets=(data.path,))
    return spec, watching


@pytest.mark.long("every combination", but=2)
@pytest.mark.parametrize(("name", "task"), CASES)
def test_a_map_is_what_the_library_says_of_each_text_alone(
    name: str,
    task: str,
    data: Stored,
    folder_of: Callable[[str], PlacedFolder],
    tmp_path: Path,
):
    folder = folder_of(name)
    _, told = recorded(data, folder, task, tmp_path)
    library = transformers.AutoModel.from_pretrained(
        folder.path, attn_implementation="eager", dtype=torch.float64
    ).eval()
    for event in told.of(AttentionCaptured):
        if event.attention.source == "base":
            _agrees(event, library)


@torch.no_grad()
def _agrees(event: AttentionCaptured, library: Any) -> None:
    """Check the base's map against the library's attention."""
    found = np.load(event.path)
    lengths = [len(tokens) for tokens in event.attention.tokens]
    assert len(set(lengths)) > 1, "one length would show nothing"
    assert found.shape[-1] >= max(lengths)
    entropies: list[torch.Tensor] = []
    for sample, tokens in enumerate(event.attention.tokens):
        length = len(tokens)
        with Float64():
            output = library(input_ids=torch.tensor([tokens]), output_attentions=True)
        expected = torch.stack([layer[0] for layer in output.attentions])
        inside = found[sample, :, :, :length, :length]
        assert np.abs(inside - expected.numpy()).max() < HALF
        assert not found[sample, :, :, length:].any()
        assert not found[sample, ..., length:].any()
        entropies.append(entropy(expected))
    rows = torch.cat(entropies, -1).mean(-1)  # over the rows of all texts
    for summary in event.attention.summaries:
        assert abs(summary.entropy - rows[summary.layer, summary.head]) < 1e-6


@pytest.mark.parametrize("method", ["prefix_tuning", "soft_prompt"])
def test_learned_positions_stand_before_every_text(
    method: str, data: Stored, folder_of: Callable[[str], PlacedFolder], tmp_path: Path
):
    spec, told = recorded(data, folder_of("bert-alone"), "head", tmp_path, method)
    assert spec.budget.extra_context_tokens > 0
    adapted = [e for e in told.of(AttentionCaptured) if e.attention.source == "adapted"]
    assert len(adapted) == 2
    for event in adapted:
        learned, found = event.attention.learned_positions, np.load(event.path)
        assert learned == spec.budget.extra_context_tokens
        for sample, tokens in enumerate(event.attention.tokens):
            rows = found[sample, :, :, : len(tokens)].astype(np.float64)
            assert np.abs(rows.sum(-1) - 1).max() < 5e-3
            assert not rows[..., learned + len(tokens) :].any()
            assert (rows[..., :learned].sum(-1) > 0).all()


@pytest.mark.long("every combination", but=2)
@pytest.mark.parametrize(("name", "task"), CASES)
def test_words_and_answers_are_those_of_the_shown_items(
    name: str,
    task: str,
    data: Stored,
    folder_of: Callable[[str], PlacedFolder],
    tmp_path: Path,
):
    folder = folder_of(name)
    spec, told = recorded(data, folder, task, tmp_path)
    (shown,) = told.of(ItemsShown)
    given = {(one.replicate, one.attached): one for one in told.of(AnswersGiven)}
    tokeniser = read_tokeniser((folder.path / "tokenizer.json").read_bytes(), None)
    for event in told.of(AttentionCaptured):
        if event.attention.replicate:
            continue  # the first replicate answers
        answers = given[event.attention.replicate, event.attention.source == "adapted"].answers
        for place, text in enumerate(event.attention.texts):
            item, tokens = shown.items[place], event.attention.tokens[place]
            assert text.words == tuple(map(tokeniser.word, tokens))
            assert tokeniser.text(tokens).startswith(item.prompt.text)
            if task != "completion":
                assert text.expected == (item.expected.text,)
                assert text.predicted == (answers[place].text,)
            elif text.predicted == text.expected:
                assert answers[place] == item.expected
    assert Expected.of(spec).problems(told.events) == ()


def test_rows_from_the_start_of_the_answer_produce_it(
    data: Stored, folder_of: Callable[[str], PlacedFolder], tmp_path: Path
):
    folder = folder_of("qwen3")
    _, told = recorded(data, folder, "completion", tmp_path)
    event = told.of(AttentionCaptured)[0].attention
    assert event.target_start > 0
    for tokens, text in zip(event.tokens, event.texts, strict=True):
        words = (*text.words, text.expected[-1])
        assert len(words) == len(tokens) + 1
        assert words[text.target_start + 1 :] == text.expected
    assert event.target_start == min(text.target_start for text in event.texts)


@pytest.mark.parametrize(("name", "first"), [("bert-alone", 0), ("qwen3", None)])
def test_a_class_is_read_from_the_last_position_or_from_all(
    name: str,
    first: int | None,
    data: Stored,
    folder_of: Callable[[str], PlacedFolder],
    tmp_path: Path,
):
    _, told = recorded(data, folder_of(name), "head", tmp_path)
    event = told.of(AttentionCaptured)[0].attention
    for tokens, text in zip(event.tokens, event.texts, strict=True):
        assert text.target_start == (len(tokens) - 1 if first is None else first)


def test_masks_and_their_places_are_shown(
    data: Stored, folder_of: Callable[[str], PlacedFolder], tmp_path: Path
):
    _, told = recorded(data, folder_of("bert"), "filled", tmp_path)
    for event in told.of(AttentionCaptured):
        for text in event.attention.texts:
            assert text.words[text.target_start :] == ("[MASK]", "[MASK]", "[SEP]")
            assert "[MASK]" not in text.words[: text.target_start]


def test_reports_that_do_not_fit_are_refused(
    data: Stored, folder_of: Callable[[str], PlacedFolder], tmp_path: Path
):
    spec, told = recorded(data, folder_of("qwen3"), "signs", tmp_path)
    event = told.of(AttentionCaptured)[0]
    text = event.attention.texts[0]

    def codes(**changes: Any) -> set[str]:
        changed = event.attention.model_copy(update=changes)
        reported = event.model_copy(update={"attention": changed})
        return {problem.code for problem in Expected.of(spec).problems([reported])}

    def with_first(**changes: Any) -> set[str]:
        return codes(texts=(text.model_copy(update=changes), *event.attention.texts[1:]))

    assert codes() == set()
    assert codes(texts=event.attention.texts[1:]) >= {"other_than_resolved"}
    assert codes(tokens=((), *event.attention.tokens[1:])) >= {"out_of_range"}
    assert codes(predictions=((2,), *event.attention.predictions[1:])) == {"out_of_range"}
    assert codes(target_start=0) == {"other_than_resolved"}
    assert with_first(words=text.words[1:]) == {"other_than_resolved"}
    assert with_first(words=("\0", *text.words[1:])) == {"bad_word"}
    assert with_first(words=("x" * 101, *text.words[1:])) == {"bad_word"}


def test_a_wrong_start_is_named_at_its_place(
    data: Stored, folder_of: Callable[[str], PlacedFolder], tmp_path: Path
):
    spec, told = recorded(data, folder_of("qwen3"), "signs", tmp_path)
    event = told.of(AttentionCaptured)[0]
    changed = event.attention.model_copy(update={"target_start": 0})
    reported = event.model_copy(update={"attention": changed})
    (problem,) = Expected.of(spec).problems([reported])
    assert problem.pointer.endswith("/attention/target_start")


def test_a_token_has_a_word_of_its_own():
    assert [ByteTokeniser().word(token) for token in b"a \xc3"] == ["a", " ", "0xC3"]
    assert ByteTokeniser().word(256) == "[end]"
