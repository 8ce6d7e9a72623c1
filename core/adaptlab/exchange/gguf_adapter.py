"""LoRA as one GGUF file, which llama.cpp applies to the same base.

It reads one alpha and divides it by the rank of each matrix, so scales that differ are folded into
B. Rows of queries and keys of Llama are ordered for its rotary positions, as in the base's file.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np

from adaptlab.errors import NoGgufForm
from adaptlab.exchange.peft_members import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from adaptlab.exchange.peft_tensors import MODULES
from adaptlab.exchange.plugins import Numbers

GGUF = "adapter.gguf"
ARCHITECTURES: Mapping[str, str] = {
    "LlamaForCausalLM": "LLAMA",
    "MistralForCausalLM": "LLAMA",
    "Qwen2ForCausalLM": "QWEN2",
}
"""The names of architectures in the format."""
PERMUTED = frozenset({"LlamaForCausalLM", "MistralForCausalLM"})
"""Architectures whose rotary pairs are neighbours in the format."""
Config = Mapping[str, object]


def write_gguf(peft: Mapping[str, bytes], base: Config, path: Path) -> None:
    """Write a PEFT folder of LoRA as a GGUF file.

    Args:
        peft: the files of the folder, by name.
        base: the `config.json` of the base model.
        path: the file to write.

    Raises:
        NoGgufForm: the adapter is no plain LoRA, or llama.cpp has no such adapter of the base.
    """
    try:
        import gguf  # an optional extra
    except ModuleNotFoundError as error:
        raise NoGgufForm(
            "The package gguf is not installed here. Install it: `pip install 'adaptlab[gguf]'`."
        ) from error
    from safetensors.numpy import load

    architecture = _architecture(base)
    config = cast("Config", json.loads(peft[ADAPTER_CONFIG]))
    _check(config)
    kind = gguf.MODEL_ARCH[ARCHITECTURES[architecture]]
    names = gguf.get_tensor_name_map(kind, _number(base, "num_hidden_layers"))
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[kind])
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, 1.0)
    for module, a, b in _modules(load(peft[ADAPTER_WEIGHTS])):
        name = names.get_name(module)
        if name is None or (module == "lm_head" and base.get("tie_word_embeddings")):
            raise NoGgufForm(
                f"llama.cpp does not read an adapter of {module} of this model. Train the LoRA at "
                "other sites, or merge it with `adaptlab checkpoints merge`."
            )
        scaled = b * (_scale(config, module) * len(a))  # its alpha of 1 is divided by the rank
        heads = _heads(architecture, base, module)
        rows = scaled if heads is None else neighbouring(scaled, heads)
        writer.add_tensor(f"{name}.weight.lora_a", np.ascontiguousarray(a, np.float32))
        writer.add_tensor(f"{name}.weight.lora_b", np.ascontiguousarray(rows, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def neighbouring(rows: Numbers, heads: int) -> Numbers:
    """Return the rows [O, r] with each head's rotary pairs side by side.

    Within a head of size d, the rows i and i + d/2 become 2i and 2i + 1.
    """
    size = len(rows) // heads
    return rows.reshape(heads, 2, size // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def _architecture(base: Config) -> str:
    named = base.get("architectures")
    names = [str(name) for name in cast("list[object]", named)] if isinstance(named, list) else []
    if len(names) != 1 or names[0] not in ARCHITECTURES:
        raise NoGgufForm(
            f"Adapters of {', '.join(names) or 'this model'} are not written as GGUF, only those "
            f"of {', '.join(ARCHITECTURES)}. Export the adapter for PEFT, or merge it."
        )
    return names[0]


def _check(config: Config) -> None:
    if config.get("peft_type") != "LORA" or config.get("use_dora"):
        kind = "DoRA" if config.get("use_dora") else config.get("peft_type")
        raise NoGgufForm(
            f"llama.cpp applies LoRA, not {kind}. Write the nearest LoRA with "
            "`adaptlab checkpoints merge ID FOLDER --as lora --rank 8 --format gguf`."
        )
    if config.get("modules_to_save"):
        raise NoGgufForm(
            "llama.cpp does not read trained heads for classes. Export the adapter for PEFT."
        )


def _modules(tensors: Mapping[str, Numbers]) -> list[tuple[str, Numbers, Numbers]]:
    """Return the modules with their A [r, I] and B [O, r]."""
    end = ".lora_A.weight"
    return [
        (
            name.removeprefix(MODULES).removesuffix(end),
            a,
            tensors[name.replace(end, ".lora_B.weight")],
        )
        for name, a in tensors.items()
        if name.endswith(end)
    ]


def _scale(config: Config, module: str) -> float:
    """Return the factor of the update of a module, as PEFT finds it."""
    rank = _matching(config.get("rank_pattern"), module, config["r"])
    alpha = _matching(config.get("alpha_pattern"), module, config["lora_alpha"])
    return alpha / (rank**0.5 if config.get("use_rslora") else rank)


def _matching(pattern: object, module: str, usual: object) -> float:
    values = cast("Mapping[str, float]", pattern or {})
    for end, value in values.items():
        if re.fullmatch(rf"(.*\.)?({end})", module):
            return value
    return cast("float", usual)


def _heads(architecture: str, base: Config, module: str) -> int | None:
    """Return the heads of a module whose rows are ordered anew.

    None for a module that is neither of queries nor of keys.
    """
    if architecture not in PERMUTED:
        return None
    if module.endswith(".q_proj"):
        return _number(base, "num_attention_heads")
    if module.endswith(".k_proj"):
        fewer = base.get("num_key_value_heads")
        return _number(base, "num_key_value_heads" if fewer else "num_attention_heads")
    return None


def _number(base: Config, name: str) -> int:
    number = base.get(name)
    if not isinstance(number, int):
        raise NoGgufForm(f"The base's config.json has no {name}. Restore it.")
    return number
