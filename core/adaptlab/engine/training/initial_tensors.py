"""The trainable tensors of a plan before the first step.

Learned rows of layers can start as the activations of vocabulary tokens.
"""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.models.plan import Plan
from adaptlab.engine.plugins import ENGINE_TOKEN_STATES
from adaptlab.engine.tensors import Float, Int
from adaptlab.engine.training.allocate import Trainables, allocate, drawn_rows
from adaptlab.engine.training.decomposed import companions_of
from adaptlab.engine.training.passes import of_seeds
from adaptlab.errors import InvalidSpec
from adaptlab.plugins.learned_positions import EMBEDDING, text_start_problems
from adaptlab.plugins.shapes import TensorShape


def initial_trainables(plan: Plan, base: Mapping[str, Float[Tensor, "G ..."]]) -> Trainables:
    """Return the tensors of all replicates of a plan, as training starts.

    `base` are the frozen tensors of all seeds of the plan.
    """
    return allocate(
        plan.trained_shapes,
        plan.replicate_seeds,
        base,
        plan.dtype,
        plan.replicate_scales,
        _of_tokens(plan, base),
    )


def with_companions(plan: Plan, base: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return base tensors with the frozen companions of the plan's method."""
    if plan.method is None:
        return dict(base)
    return {**base, **companions_of(plan.method, plan.shape, base)}


@torch.no_grad()
def _of_tokens(
    plan: Plan, base: Mapping[str, Float[Tensor, "G ..."]]
) -> dict[str, Float[Tensor, "S P _"]]:
    """Return the initial values of tensors that start as tokens.

    There are values for every seed. Seeds are computed one by one, so that those of a seed do not
    depend on the others.
    """
    starting = {
        name: shape
        for name, shape in plan.trained_shapes.items()
        if shape.initialiser.kind == "token_states" or shape.initialiser.text
    }
    if not starting:
        return {}
    by_seed = [
        _of_seed(
            plan, {name: of_seeds(tensor, [index]) for name, tensor in base.items()}, seed, starting
        )
        for index, seed in enumerate(plan.seeds)
    ]
    return {name: torch.cat([each[name] for each in by_seed]) for name in starting}


def _of_seed(
    plan: Plan,
    base: Mapping[str, Float[Tensor, "1 ..."]],
    seed: Int[Tensor, ""],
    starting: Mapping[str, TensorShape],
) -> dict[str, Float[Tensor, "1 P _"]]:
    """Return the initial values of one seed.

    All layers of a method start with the same tokens, which are those that a soft prompt draws, or
    those of its text. Each method of a combination draws its own.
    """
    of_method: dict[str, dict[str, Tensor]] = {}
    values: dict[str, Tensor] = {}
    for name, shape in starting.items():
        start, length = shape.initialiser, shape.shape[0]
        source = start.source
        if start.kind == "base_rows":
            values[name] = _embedded(plan, base, _of_text(plan, start.text, length))
            continue
        method = name.removesuffix(source)  # empty outside a combination
        if method not in of_method:
            if start.text:
                tokens = _of_text(plan, start.text, length)
            else:
                tokens = drawn_rows(f"{method}embed.prompt", start.rows, length, seed)
            states = ENGINE_TOKEN_STATES.get(plan.family.name)
            of_method[method] = states(plan.family, base, _embedded(plan, base, tokens))
        values[name] = of_method[method][source]
    return values


def _embedded(
    plan: Plan, base: Mapping[str, Float[Tensor, "1 ..."]], tokens: Int[Tensor, "P"]
) -> Float[Tensor, "1 P C"]:
    embeddings = plan.shape.embedding_scale * base[EMBEDDING][:, tokens]
    beside = plan.shape.width - embeddings.shape[-1]  # position codes, which stay 0
    return functional.pad(embeddings, (0, beside))


def _of_text(plan: Plan, text: str, length: int) -> Int[Tensor, "P"]:
    """Return the tokens of a text, repeated to `length`.

    Raises:
        InvalidSpec: the text has more tokens.
    """
    assert plan.tokeniser is not None, "it is read if the method has a text"
    tokens = plan.tokeniser.tokens(text).ids
    if problems := text_start_problems(len(tokens), length):
        raise InvalidSpec(*problems)
    return torch.tensor([tokens[n % len(tokens)] for n in range(length)], device=plan.device)
