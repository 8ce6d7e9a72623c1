"""Model folders made without torch: a tiny Llama in the usual layout."""

import json
import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
QUERY = "model.layers.0.self_attn.q_proj.weight"
CONFIG: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 12,
    "hidden_size": 8,
    "intermediate_size": 10,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 32,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
PARAMETERS = 2 * 12 * 8 + 8 + 2 * (2 * 8 + 2 * 8 * 8 + 2 * 4 * 8 + 3 * 10 * 8)
"""Embedding and head, last norm; of each layer norms, q and o, k and v, the MLP."""


def a_model_folder(
    folder: Path, *, seed: int = 1, vocabulary: int = 12, layers: int = 2, context: int = 32
) -> Path:
    """A whole model of random weights; `folder` is made."""
    config = {
        **CONFIG,
        "vocab_size": vocabulary,
        "num_hidden_layers": layers,
        "max_position_embeddings": context,
    }
    return _written(folder, config, _shapes(vocabulary, layers), seed)


def a_qwen3_folder(folder: Path, *, seed: int = 1, vocabulary: int = 12) -> Path:
    """A complete Qwen3 with random weights, in the new folder `folder`."""
    config = {
        **CONFIG,
        "architectures": ["Qwen3ForCausalLM"],
        "head_dim": 4,
        "vocab_size": vocabulary,
        "eos_token_id": 1,
    }
    norms = {
        f"model.layers.{layer}.self_attn.{part}_norm.weight": (4,)
        for layer in range(2)
        for part in "qk"
    }
    return _written(folder, config, _shapes(vocabulary) | norms, seed)


QUERIES = ("query", "key", "value")
MASK = 11
"""The mask of the encoder's vocabulary of 12 tokens."""


def a_sentence_encoder(folder: Path, *, vocabulary: int = 12, seed: int = 1) -> Path:
    """A BERT without a head, with random weights, in the new folder `folder`.

    Like published sentence encoders it has a pooler and a buffer of positions.
    """
    whole = folder.with_name(f"{folder.name}-whole")
    a_bert_folder(whole, seed=seed, vocab_size=vocabulary)
    config = json.loads((whole / "config.json").read_text())
    del config["mask_token_id"]
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["BertModel"]}))
    tensors = load_file(whole / WEIGHTS)
    own = {
        name.removeprefix("bert."): tensor
        for name, tensor in tensors.items()
        if name.startswith("bert.")
    }
    words = np.random.default_rng(seed).normal(size=(vocabulary, 8)).astype(np.float32)
    own["embeddings.word_embeddings.weight"] = words
    own["embeddings.position_ids"] = np.arange(32).reshape(1, 32)
    save_file(own, folder / WEIGHTS)
    shutil.rmtree(whole)
    return folder


def a_bert_folder(folder: Path, *, seed: int = 1, vocabulary: int = 12, **members: object) -> Path:
    """A complete BERT with random weights, in the new folder `folder`.

    It has a pooler, and norms under their older names.
    """
    width, hidden, head = 8, 10, "cls.predictions"
    shapes: dict[str, tuple[int, ...]] = {
        "bert.embeddings.word_embeddings.weight": (vocabulary, width),
        "bert.embeddings.position_embeddings.weight": (32, width),
        "bert.embeddings.token_type_embeddings.weight": (2, width),
        f"{head}.bias": (vocabulary,),
    }
    linear = {"bert.pooler.dense": (width, width), f"{head}.transform.dense": (width, width)}
    norms = ["bert.embeddings.LayerNorm", f"{head}.transform.LayerNorm"]
    for block in (f"bert.encoder.layer.{layer}" for layer in range(2)):
        parts = ("self.query", "self.key", "self.value", "output.dense")
        linear |= {f"{block}.attention.{part}": (width, width) for part in parts}
        linear |= {f"{block}.intermediate.dense": (hidden, width)}
        linear |= {f"{block}.output.dense": (width, hidden)}
        norms += [f"{block}.attention.output.LayerNorm", f"{block}.output.LayerNorm"]
    for name, shape in linear.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    shapes |= {f"{name}.{kind}": (width,) for name in norms for kind in ("gamma", "beta")}
    config = {
        "architectures": ["BertForMaskedLM"],
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": hidden,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 32,
        "type_vocab_size": 2,
        "mask_token_id": MASK,
    }
    return _written(folder, {**config, **members}, shapes, seed)


def a_vit_folder(folder: Path, *, seed: int = 1, **members: object) -> Path:
    """A ViT for images of 8 × 8 pixels with random weights, in a new folder.

    Its names are those of published files. It has a head for five classes.
    """
    width, hidden, patch, inner = 8, 10, 4, "vit.embeddings"
    shapes: dict[str, tuple[int, ...]] = {
        f"{inner}.cls_token": (1, 1, width),
        f"{inner}.position_embeddings": (1, 5, width),
        f"{inner}.patch_embeddings.projection.weight": (width, 1, patch, patch),
        f"{inner}.patch_embeddings.projection.bias": (width,),
        "vit.layernorm.weight": (width,),
        "vit.layernorm.bias": (width,),
        "classifier.weight": (5, width),
        "classifier.bias": (5,),
    }
    for block in (f"vit.encoder.layer.{layer}" for layer in range(2)):
        linear = {f"{block}.attention.attention.{part}": (width, width) for part in QUERIES}
        linear |= {f"{block}.attention.output.dense": (width, width)}
        linear |= {f"{block}.intermediate.dense": (hidden, width)}
        linear |= {f"{block}.output.dense": (width, hidden)}
        linear |= {f"{block}.layernorm_{place}": (width,) for place in ("before", "after")}
        for name, shape in linear.items():
            shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    config = {
        "architectures": ["ViTForImageClassification"],
        "hidden_size": width,
        "intermediate_size": hidden,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 8,
        "patch_size": patch,
        "num_channels": 1,
    }
    return _written(folder, {**config, **members}, shapes, seed)


def _written(
    folder: Path, config: dict[str, object], shapes: dict[str, tuple[int, ...]], seed: int
) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    generator = np.random.default_rng(seed)
    save_file(
        {
            name: (0.3 * generator.normal(size=shape)).astype(np.float32)
            for name, shape in shapes.items()
        },
        folder / WEIGHTS,
    )
    return folder


def with_weights(folder: Path, **changed: NDArray[np.float32] | None) -> None:
    """Replace or add tensors of a folder; None takes one away."""
    tensors = load_file(folder / WEIGHTS) | changed
    save_file({name: t for name, t in tensors.items() if t is not None}, folder / WEIGHTS)


def _shapes(vocabulary: int = 12, layers: int = 2) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (vocabulary, 8),
        "model.norm.weight": (8,),
        "lm_head.weight": (vocabulary, 8),
    }
    for layer in range(layers):
        parts: dict[str, tuple[int, ...]] = {
            "input_layernorm": (8,),
            "post_attention_layernorm": (8,),
            "self_attn.q_proj": (8, 8),
            "self_attn.k_proj": (4, 8),
            "self_attn.v_proj": (4, 8),
            "self_attn.o_proj": (8, 8),
            "mlp.gate_proj": (10, 8),
            "mlp.up_proj": (10, 8),
            "mlp.down_proj": (8, 10),
        }
        shapes |= {f"model.layers.{layer}.{part}.weight": size for part, size in parts.items()}
    return shapes


def in_shards(folder: Path) -> None:
    """Cut the weights of a folder into two files with an index."""
    tensors = load_file(folder / WEIGHTS)
    names = sorted(tensors)
    halves = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, own in halves.items():
        save_file({name: tensors[name] for name in own}, folder / file)
    (folder / WEIGHTS).unlink()
    places = {name: file for file, own in halves.items() for name in own}
    (folder / INDEX).write_text(json.dumps({"weight_map": places}))
