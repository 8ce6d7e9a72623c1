"""PEFT folders as its users have them, without torch and PEFT."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tests.folders import CONFIG

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
Arrays = dict[str, NDArray[Any]]  # Any: floats of several sizes
KEY = "base_model.model.model.layers.{layer}.self_attn.{module}.{kind}.weight"
LORA: Mapping[str, object] = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "r": 2,
    "lora_alpha": 4,
    "target_modules": ["q_proj", "v_proj"],
    "base_model_name_or_path": "someone/a-llama",
    "peft_version": "0.21.2",
    "lora_dropout": 0.1,
    "megatron_core": "megatron.core",
    "bias": "none",
    "init_lora_weights": True,
    "inference_mode": True,
    "layers_to_transform": None,
    "loftq_config": {},
}


def lora_tensors(**changes: NDArray[Any] | None) -> Arrays:
    """LoRA of q and v of the Llama in `tests.folders`.

    `changes` are tensors of the first layer. Their names are those of module and matrix, such as
    `q_proj_lora_A`; None leaves one out.
    """
    generator = np.random.default_rng(5)
    width, rank = int(str(CONFIG["hidden_size"])), 2
    tensors: Arrays = {}
    for layer in range(2):
        for module, outputs in (("q_proj", width), ("v_proj", width // 2)):
            for kind, shape in (("lora_A", (rank, width)), ("lora_B", (outputs, rank))):
                name = KEY.format(layer=layer, module=module, kind=kind)
                tensors[name] = generator.normal(size=shape).astype(np.float32)
                changed = changes.get(f"{module}_{kind}", tensors[name]) if not layer else None
                if layer == 0 and changed is None:
                    del tensors[name]
                elif changed is not None:
                    tensors[name] = changed
    return tensors


def a_peft_folder(
    folder: Path, config: Mapping[str, object] = LORA, tensors: Arrays | None = None
) -> Path:
    """A folder with an adapter, by default LoRA; `folder` is made."""
    folder.mkdir(parents=True)
    (folder / ADAPTER_CONFIG).write_text(json.dumps(config))
    save_file(lora_tensors() if tensors is None else tensors, folder / ADAPTER_WEIGHTS)
    return folder
