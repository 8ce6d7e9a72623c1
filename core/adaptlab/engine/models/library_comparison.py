"""Comparison of our own decoders with the library's models, at import.

What our code derives from a `config.json` must be what `transformers` derives from it. Members of
the configuration and rotary frequencies are compared first, since they have names. Then the first
blocks are computed by both, for a few tokens.
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.metadata import version
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from adaptlab.engine.models.attachments import NOTHING_ATTACHED
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.engine.tensors import Float, Int
from adaptlab.errors import BadModelFolder
from adaptlab.weights.huggingface import CONFIG, PublishedFamily, PublishedTensor, read_description
from adaptlab.weights.library_tensors import BLOCK
from adaptlab.weights.model_folder import CheckedFolder
from adaptlab.wording import shortened

LAYERS = 2
"""Blocks that are computed. All blocks of our decoders are alike."""
TOKENS = 24
"""Tokens that are computed, and at most as many rows of the embedding."""
LARGEST_DIFFERENCE = 1e-3
"""Largest difference of logits in float32, as a part of the largest logit."""


def check_against_library(checked: CheckedFolder) -> None:
    """Compare a model that our own code computes with that of `transformers`.

    Raises:
        BadModelFolder: they differ; the message has the member of the configuration, and both
            values.
    """
    members = checked.family.library_members()
    if not members:
        return
    description = read_description(checked.files)
    architecture, config = _library_config(description.architecture, description.config)
    _check_members(members, config)
    count = min(LAYERS, config.num_hidden_layers)
    rows = min(TOKENS, config.vocab_size)
    config.num_hidden_layers, config.vocab_size = count, rows
    config.pad_token_id = None
    module = _empty(architecture, config)
    _check_frequencies(checked.family, module)
    tensors = _first_tensors(checked, count, rows)
    tokens = torch.arange(min(TOKENS, config.max_position_embeddings)).unsqueeze(0) % rows
    _check_logits(
        _our_logits(checked.family, tensors, tokens, count, rows),
        _their_logits(module, tensors, tokens),
    )


def _library_config(architecture: str, config: Mapping[str, object]) -> tuple[Any, Any]:
    """Return the library's class of a model, and its configuration."""
    import transformers

    known: Any = getattr(transformers, architecture)
    return known, library_config(known, config)


def library_config(architecture: Any, config: Mapping[str, object]) -> Any:
    """Return the library's reading of a configuration.

    Raises:
        BadModelFolder: the library refuses a member.
    """
    try:
        return architecture.config_class.from_dict(json.loads(json.dumps(config)))
    except Exception as error:  # whatever the library's checks raise
        raise BadModelFolder(_refusal(architecture, error)) from error


def _refusal(architecture: Any, error: Exception) -> str:
    cause = error.__cause__ or error
    return (
        f"transformers {version('transformers')} builds no {architecture.__name__} from {CONFIG}: "
        f"{shortened(str(cause) or type(cause).__name__, 500)}. Correct {CONFIG}, and import the "
        "folder again."
    )


def library_module(architecture: Any, config: Any, **options: Any) -> Any:
    """Return the library's module of a configuration.

    Raises:
        BadModelFolder: the library cannot make it.
    """
    try:
        return architecture._from_config(config, **options)
    except Exception as error:  # whatever the library's modules raise
        raise BadModelFolder(_refusal(architecture, error)) from error


def _check_members(ours: Mapping[str, object], config: Any) -> None:
    for name, value in ours.items():
        theirs = _member(config, name)
        if theirs != value:
            raise BadModelFolder(_difference(name, value, theirs))


def _member(config: Any, name: str) -> object:
    value: object = getattr(config, name, None)
    if name == "head_dim" and value is None:
        return config.hidden_size // config.num_attention_heads
    return value


def _check_frequencies(family: PublishedFamily, module: Any) -> None:
    ours = family.rotary_frequencies()
    if not ours:
        return
    rotary = module.base_model.rotary_emb
    theirs: list[float] = rotary.inv_freq.tolist()
    if rotary.attention_scaling != 1 or len(ours) != len(theirs):
        raise BadModelFolder(_difference("rope_parameters", len(ours), len(theirs)))
    for mine, other in zip(ours, theirs, strict=True):
        if abs(mine - other) > 1e-4 * abs(other):
            raise BadModelFolder(_difference("rope_parameters", mine, other))


def _check_logits(ours: Float[Tensor, "1 T V"], theirs: Float[Tensor, "1 T V"]) -> None:
    largest = float(theirs.abs().max())
    difference = float((ours - theirs).abs().max())
    if not difference <= LARGEST_DIFFERENCE * largest:
        raise BadModelFolder(
            f"For {ours.shape[1]} tokens, the logits of adaptlab differ from those of transformers "
            f"{version('transformers')} by up to {difference:.3g}, where the largest is "
            f"{largest:.3g}. The scores would be those of another model, so it is not imported. "
            "Please report this model."
        )


def _difference(member: str, ours: object, theirs: object) -> str:
    return (
        f"{CONFIG} is read differently by adaptlab and by transformers {version('transformers')}: "
        f"{member} is {ours} here and {theirs} there. State {member} in {CONFIG} in the form that "
        "save_pretrained of current transformers writes."
    )


def _empty(architecture: Any, config: Any) -> Any:
    """Return a module whose matrices have no memory yet."""
    from transformers.initialization import no_init_weights

    with no_init_weights():
        module = library_module(architecture, config, attn_implementation="eager")
    return module.eval().requires_grad_(requires_grad=False)


def _first_tensors(checked: CheckedFolder, layers: int, rows: int) -> dict[str, Tensor]:
    """Return the stored tensors of the first blocks, in float32.

    Their names are without the prefix. Of embeddings and heads these are the first rows.
    """
    tensors: dict[str, Tensor] = {}
    prefix, outer = checked.family.prefix, _of_tokens(checked.family)
    with ExitStack() as stack:
        opened = {
            path: stack.enter_context(safe_open(path, framework="pt"))
            for path in {tensor.file for tensor in checked.stored}
        }
        for stored in checked.stored:
            name = stored.name.removeprefix(prefix)
            block = BLOCK.search(f".{name}")
            if block is not None and int(block[1]) >= layers:
                continue
            file = opened[stored.file]
            is_cut = name in outer
            whole = file.get_slice(stored.name)[:rows] if is_cut else file.get_tensor(stored.name)
            tensors[name] = whole.float()
    return tensors


def _of_tokens(family: PublishedFamily) -> frozenset[str]:
    places = family.published_tensors()
    return frozenset(places[name].name for name in ("embed.weight", "unembed.weight"))


def _our_logits(
    family: PublishedFamily,
    tensors: Mapping[str, Tensor],
    tokens: Int[Tensor, "1 T"],
    layers: int,
    rows: int,
) -> Float[Tensor, "1 T V"]:
    """Return the logits of our decoder."""
    first = family.model_copy(update={"layers": layers, "vocabulary": rows})
    shape, places = first.shape(), first.published_tensors()

    def weight(name: str) -> Tensor:
        place: PublishedTensor = places[name]
        return place.part_of(tensors[place.name], shape.rows_of(name)).contiguous().unsqueeze(0)

    weights = {name: weight(name) for name in shape.tensors}
    forward = ENGINE_FAMILIES.get(first.name)
    return forward(first, weights, tokens.unsqueeze(0), NOTHING_ATTACHED, slice(None))[0]


def _their_logits(
    module: Any, tensors: Mapping[str, Tensor], tokens: Int[Tensor, "1 T"]
) -> Float[Tensor, "1 T V"]:
    """Return the logits of the library's model with the stored tensors."""
    prefix, names = f"{module.base_model_prefix}.", module.state_dict().keys()
    by_name = {name if name in names else prefix + name: t for name, t in tensors.items()}
    state = {name: tensor for name, tensor in by_name.items() if name in names}
    module.load_state_dict(state, strict=False, assign=True)
    module.tie_weights()
    return module(tokens, use_cache=False).logits
