"""Learned positions in PEFT, which moves content behind them."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from pydantic import Field

from adaptlab.errors import BadAdapter
from adaptlab.exchange.modules import ConfiguredModel
from adaptlab.exchange.peft_members import ADAPTER_CONFIG, ADAPTER_WEIGHTS, PeftMembers
from adaptlab.exchange.peft_tensors import LONGEST_NAME, check_shape
from adaptlab.exchange.plugins import BaseTensors, Numbers, PeftForm
from adaptlab.plugins.learned_positions import LONGEST
from adaptlab.weights.library_tensors import POSITIONS
from adaptlab.wording import shortened


def moved_positions(model: ConfiguredModel, length: int, base: BaseTensors) -> PeftForm:
    """Return the members and tensors that keep the content's position vectors.

    Here content has the positions 0, 1, …, and learned positions have no position vector. PEFT
    gives the positions 0 to `length` − 1 to learned positions and the next ones to content. So the
    adapter has its own table: zeros for `length` positions, then the base's vectors. Models with
    rotary positions see only distances and need nothing.
    """
    if POSITIONS not in model.shape.tensors:
        return PeftForm({}, {})
    table = base(POSITIONS)
    first = len(table) - model.shape.context  # OPT's content begins at row 2
    moved = np.zeros_like(table)
    moved[:first] = table[:first]
    moved[first + length :] = table[first : len(table) - length]
    module = model.module_of(POSITIONS)
    return PeftForm(
        {"modules_to_save": [module.rpartition(".")[2]]}, {f"base_model.{module}.weight": moved}
    )


class PromptMembers(PeftMembers):
    """The members of adapters with learned positions that are read."""

    ignored = frozenset(
        {
            *("encoder_hidden_size", "init_weights", "num_layers", "prompt_tuning_init"),
            *("prompt_tuning_init_text", "token_dim", "tokenizer_kwargs", "tokenizer_name_or_path"),
        }
    )

    task_type: Literal["CAUSAL_LM"] = Field()  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues] - frozen; required
    num_virtual_tokens: int
    num_transformer_submodules: Literal[1] | None = None
    num_attention_heads: int | None = None
    prefix_projection: bool = False
    """Only how it was trained: what is saved is the prefix itself."""


def learned_rows(
    members: PromptMembers,
    model: ConfiguredModel,
    tensors: Mapping[str, Numbers],
    base: BaseTensors,
    width: int,
) -> Numbers:
    """Return the learned rows [P, width].

    The content must have the base's position vectors.

    Raises:
        BadAdapter: it has others, or the tensors are not those of such an adapter.
    """
    if PROMPT not in tensors:
        raise BadAdapter(f"{ADAPTER_WEIGHTS} lacks {PROMPT}. Save the adapter again.")
    rows = tensors[PROMPT]
    check_shape(PROMPT, rows, (None, width))
    if len(rows) != members.num_virtual_tokens:
        raise BadAdapter(
            f"{ADAPTER_CONFIG} has num_virtual_tokens {members.num_virtual_tokens}, and {PROMPT} "
            f"of {ADAPTER_WEIGHTS} has {len(rows)} rows. Save the adapter again."
        )
    if not 1 <= len(rows) <= LONGEST:
        raise BadAdapter(
            f"{ADAPTER_WEIGHTS} has {len(rows):,} learned positions. An adapter must have 1 to "
            f"{LONGEST:,}. Train one of that length."
        )
    moved = moved_positions(model, min(len(rows), model.shape.context), base)
    if (members.modules_to_save or []) != moved.config.get("modules_to_save", []):
        raise BadAdapter(_other_positions(model) if moved.config else _SAVED)
    for name in tensors.keys() - {PROMPT} - moved.tensors.keys():
        raise BadAdapter(
            f"{ADAPTER_WEIGHTS} has the tensor {shortened(name, LONGEST_NAME)}, for which adaptlab "
            "has no form. Train the adapter without it."
        )
    for name, table in moved.tensors.items():
        if name not in tensors or not np.array_equal(tensors[name], table):
            raise BadAdapter(_other_positions(model))
    return rows


PROMPT = "prompt_embeddings"
_SAVED = (
    f"{ADAPTER_CONFIG} has modules_to_save, which are trained copies of modules of the base model. "
    "adaptlab's adapters have none. Train the adapter without them."
)


def _other_positions(model: ConfiguredModel) -> str:
    module = model.module_of(POSITIONS)
    return (
        f"In PEFT, the adapter gives content other position vectors of {module} than in adaptlab, "
        f"where learned positions have none. {ADAPTER_WEIGHTS} can only be imported with the "
        "base's table moved by their number, as adaptlab exports it. Use LoRA or IA3, or a base "
        "model with rotary positions."
    )
