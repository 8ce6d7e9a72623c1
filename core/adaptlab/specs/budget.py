"""Budget solver: the largest configuration within a parameter budget."""

from dataclasses import dataclass

from pydantic import Field

from adaptlab.errors import InfeasibleBudget, InvalidSpec, Problem
from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.sites import missing_sites
from adaptlab.values import Value

BYTES_PER_SCALAR = 4


class BudgetVector(Value):
    """The cost of an adaptation in all respects that methods are compared in.

    - `gap` is the unused part of the requested budget.
    - `stored_bytes` is the size of the stored tensors in float32. It can be smaller than the size
      of the trained tensors.
    - `stored_bits` is the information in the stored tensors, less than their size if they are
      embeddings of tokens. Jobs of earlier versions do not have it.
    - `flops_per_token` is the cost of a forward pass of base model and adaptation, without the
      attention products.
    - `tensors` has the number of parameters of each trainable tensor.

    In a job's answer, `trainable_parameters` is an alias of the job's member of that name.
    """

    requested: int | None
    trainable_parameters: int
    gap: int | None
    stored_bytes: int
    stored_bits: int | None = Field(
        default=None,
        exclude_if=lambda bits: bits is None,  # older jobs keep their digests
    )
    extra_context_tokens: int
    flops_per_token: int
    tensors: dict[str, int]


@dataclass(frozen=True, slots=True)
class Solution:
    """A fully configured method with its cost on one model."""

    method: Method
    budget: BudgetVector


def trainable_parameters(method: Method, shape: ModelShape) -> int:
    """Return the number of trainable parameters of a resolved configuration."""
    return method.trained_scalars(shape)


def solve(method: Method, shape: ModelShape, budget: int | None) -> Method:
    """Return the largest configuration of `method` within `budget` parameters.

    A size that the spec sets is kept and only checked.

    Raises:
        InvalidSpec: the model does not support the configuration.
        InfeasibleBudget: even the smallest configuration exceeds the budget.
    """
    check_method(method, shape)
    return fit(method, shape, budget)


def check_method(method: Method, shape: ModelShape) -> None:
    """Raise `InvalidSpec` if the model does not support the configuration."""
    if problems := method.problems(shape) or missing_sites(method, shape):
        raise InvalidSpec(*problems)


def fit(method: Method, shape: ModelShape, budget: int | None) -> Method:
    """Return the solution for a method that `check_method` has accepted.

    Raises:
        InfeasibleBudget: even the smallest configuration exceeds the budget.
    """
    if budget is None:
        if method.size_is_free():
            raise _missing(method)
        return method
    least = method.smallest().trained_scalars(shape)
    if least > budget:
        raise _infeasible(method, budget, least)
    return method.within(shape, budget)


def budget_vector(method: Method, shape: ModelShape, requested: int | None) -> BudgetVector:
    """Return the cost of a resolved configuration."""
    tensors = {name: tensor.size for name, tensor in method.trained(shape).items()}
    trained = sum(tensors.values())
    kept = method.kept()
    stored = trained if kept is method else kept.trained_scalars(shape)
    return BudgetVector(
        requested=requested,
        trainable_parameters=trained,
        gap=None if requested is None else requested - trained,
        stored_bytes=BYTES_PER_SCALAR * stored,
        stored_bits=method.stored_bits(shape),
        extra_context_tokens=method.extra_context_tokens(),
        flops_per_token=shape.forward_flops_per_token() + method.extra_flops_per_token(shape),
        tensors=tensors,
    )


def _missing(method: Method) -> InvalidSpec:
    return InvalidSpec(
        Problem(
            pointer="/budget",
            code="budget_missing",
            detail=f"Give a budget, or set the {method.size_knob or 'sizes'} of {method.name}.",
        )
    )


def _infeasible(method: Method, budget: int, least: int) -> InfeasibleBudget:
    return InfeasibleBudget(
        Problem(
            pointer="/budget/trainable_parameters",
            code="infeasible_budget",
            detail=(
                f"Budget {budget:,} is too small for {method.name} on this model, whose smallest "
                f"configuration has {least:,} parameters. Use {least:,} or more."
            ),
            nearest=(least,),
        )
    )
