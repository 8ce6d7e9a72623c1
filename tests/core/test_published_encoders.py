"""Encoders that the library computes: sites, and refused folders.

Sites are from names and shapes.
"""

from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file
from tests.folders import MASK, WEIGHTS, a_bert_folder, with_weights

from adaptlab.errors import BadModelFolder
from adaptlab.weights.model_folder import check_folder

TRANSFORM = "cls.predictions.transform.dense"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return a_bert_folder(tmp_path / "bert")


def test_an_encoder_fills_masks_in_at_their_places(folder: Path) -> None:
    family = check_folder(folder).family
    assert (family.fills_in(), family.predicts_in_place()) == (True, True)
    assert (family.mask_token(), family.answer_start(5), family.content_length(9)) == (MASK, 5, 10)


def test_sites_follow_from_headers_and_what_is_not_used_is_left_out(folder: Path) -> None:
    checked = check_folder(folder)
    shape = checked.family.shape()
    assert [site.name for site in shape.linear_sites if site.layer in (1, None)] == [
        *(f"blocks.1.{part}" for part in ("attn.q", "attn.k", "attn.v", "attn.o")),
        *("blocks.1.mlp.up", "blocks.1.mlp.down", "transform", "unembed"),
    ]
    stored = load_file(folder / WEIGHTS)
    unused = (".pooler.dense.weight", ".pooler.dense.bias")
    used = sum(t.size for name, t in stored.items() if not name.endswith(unused))
    assert shape.parameters == used
    norm, _ = checked.sources["blocks.1.mlp.attention_norm.weight"]
    assert norm.name == "bert.encoder.layer.1.attention.output.LayerNorm.gamma"
    assert "blocks.0.mlp.attention_norm.weight" not in shape.first_attention
    assert "embed_norm.weight" in shape.first_attention


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"mask_token_id": None}, "has no mask_token_id. Add the id"),
        ({"mask_token_id": 12}, "mask_token_id is 12 in a vocabulary of 12"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings must be true, not false"),
        ({"is_decoder": True}, "is_decoder must be false, not true"),
        (
            {"position_embedding_type": "relative_key"},
            "embedding_type must be 'absolute', not ",
        ),
    ],
)
def test_configurations_of_other_models_are_refused(
    tmp_path: Path, members: dict[str, Any], text: str
) -> None:
    folder = a_bert_folder(tmp_path / "bert", **members)
    with pytest.raises(BadModelFolder, match=text):
        check_folder(folder)


def test_an_encoder_without_a_head_for_masks_is_refused(folder: Path) -> None:
    with_weights(folder, **{f"{TRANSFORM}.weight": None})
    with pytest.raises(BadModelFolder, match=r"the model has no transform\.weight"):
        check_folder(folder)
