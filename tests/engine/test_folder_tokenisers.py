"""Tokens of a folder's texts, against the library's tokeniser."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.texts import a_byte_pair_tokeniser, a_word_piece_tokeniser, reviews

from adaptlab.engine.models.library_tokeniser import PROBES, check_tokeniser, library_tokeniser
from adaptlab.errors import BadModelFolder
from adaptlab.text.folder_tokeniser import folder_tokeniser

TEXTS = [record["text"] for record in reviews(60)]
PAIRS, PIECES = a_byte_pair_tokeniser(TEXTS), a_word_piece_tokeniser(TEXTS)
VOCABULARY = 330
CHAT_END = {"content": "<|im_end|>", "special": True, "lstrip": False, "rstrip": False,
            "normalized": False, "single_word": False}  # fmt: skip
Files = dict[str, bytes]


def files(content: bytes, own: dict[str, Any], **others: dict[str, Any]) -> Files:
    """Return files of a folder; `others` are named without an ending."""
    is_of_pieces = json.loads(content)["model"]["type"] == "WordPiece"
    kind = "bert" if is_of_pieces else "llama"
    model = {"model_type": kind, **others.pop("config", {})}
    written = {"config": model, "tokenizer_config": own, **others}
    return {f"{n}.json": json.dumps(d).encode() for n, d in written.items()} | {
        "tokenizer.json": content
    }


def changed(content: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(content)
    change(document)
    return json.dumps(document).encode()


APPLIED: dict[str, Files] = {
    "as-it-is": files(PAIRS, {}),
    "cased-bert": files(PIECES, {"tokenizer_class": "BertTokenizer", "do_lower_case": False}),
    "uncased-bert": files(
        changed(PIECES, lambda d: d["normalizer"].update(lowercase=False)),
        {"tokenizer_class": "BertTokenizerFast", "do_lower_case": True},
    ),
    "bert-by-its-model": files(PIECES, {"do_lower_case": False}),
    "lower-case-of-another-class": files(
        PIECES, {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": False}
    ),
    "accents": files(
        PIECES,
        {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "strip_accents": False},
    ),
    "chat-end": files(PAIRS, {"added_tokens_decoder": {"320": CHAT_END}}),
    "named-tokens": files(
        changed(PAIRS, lambda d: d.update(added_tokens=[])),
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>", "bos_token": "<s>"},
    ),
}
TEXTS_WITH_MARKS = (*PROBES, "yes<|im_end|>\n", "a</s>b<s>")


@pytest.mark.parametrize("case", APPLIED)
def test_texts_have_the_tokens_that_the_library_gives_them(case: str) -> None:
    ours = folder_tokeniser(APPLIED[case], VOCABULARY)
    theirs = library_tokeniser(APPLIED[case])
    for text in TEXTS_WITH_MARKS:
        assert list(ours.whole(text)) == theirs(text)["input_ids"]
    check_tokeniser(APPLIED[case], VOCABULARY)


REFUSED: dict[str, tuple[Files, str]] = {
    "prefix-space": (
        files(PAIRS,
            {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True},
            config={"model_type": "gpt2"},
        ),
        r"reads 'The Film is FINE. It is' as \[0, .* with tokenizer_config.json as \[0, 222",
    ),
    "lower-case-by-default": (
        files(
            changed(PIECES, lambda d: d["normalizer"].update(lowercase=False)),
            {"tokenizer_class": "BertTokenizer"},
        ),
        "reads 'The Film is FINE",
    ),
    "another-number": (
        files(PAIRS, {"added_tokens_decoder": {"325": CHAT_END}}),
        r'"<\|im_end\|>" is 325 in tokenizer_config.json and 320 by tokenizer.json',
    ),
    "end-below-zero": (
        files(PAIRS, {}, config={"eos_token_id": -1}),
        "eos_token_id of config.json is -1, and the tokens of the model are 0 to 329",
    ),
    "end-beyond": (files(PAIRS, {}, config={"eos_token_id": [999]}), "config.json is 999"),
    "end-is-a-word": (files(PAIRS, {}, config={"eos_token_id": "</s>"}), 'is "</s>". It must be'),
    "unknown-end": (files(PAIRS, {"eos_token": "[stop]"}), r'is "\[stop\]", which tokenizer.json'),
    "generation-beyond": (
        files(PAIRS, {}, generation_config={"eos_token_id": 330}),
        "generation_config.json is 330",
    ),
    "gaps": (
        files(
            changed(PAIRS, lambda d: d["model"]["vocab"].update({"zz": 500})), {}
        ),
        "The largest token of tokenizer.json is 500, and the model has 330 tokens",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_read_otherwise_is_refused_by_name(case: str) -> None:
    folder, told = REFUSED[case]
    with pytest.raises(BadModelFolder, match=told):
        check_tokeniser(folder, VOCABULARY)


@pytest.mark.parametrize(
    ("folder", "end"),
    [
        (files(PAIRS, {"eos_token": "</s>"}), 1),
        (files(PAIRS, {"eos_token": {"content": "</s>"}}, config={"eos_token_id": [2, 1]}), 2),
        (files(PAIRS, {}, generation_config={"eos_token_id": [7, 1]}), 7),
        (files(PAIRS, {}, generation_config={"eos_token_id": None}), None),
    ],
)
def test_the_end_token_is_in_one_of_three_files(folder: Files, end: int | None) -> None:
    assert folder_tokeniser(folder, VOCABULARY).end == end
