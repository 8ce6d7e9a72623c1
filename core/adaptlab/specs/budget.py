"""The budget solver: from a number of trainable parameters to the configuration that fits."""

from dataclasses import dataclass

from adaptlab.errors import InfeasibleBudget, InvalidSpec, Problem
from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.sites import missing_sites
from adaptlab.values import Value

BYTES_PER_SCALAR = 4


class BudgetVector(Value):
    """What an adaptation costs, on every axis on which methods are compared.

    `gap` is the part of the requested budget that the configuration leaves unused,
    `stored_bytes` counts the float32 tensors that are kept, which may be fewer than are trained,
    `flops_per_token` one forward pass of base and adaptation without the attention products,
    `tensors` the scalars of each trainable tensor.
    """

    requested: int | None
    trainable_parameters: int
    gap: int | None
    stored_bytes: int
    extra_context_tokens: int
    flops_per_token: int
    tensors: dict[str, int]


@dataclass(frozen=True, slots=True)
class Solution:
    """A method whose every knob is decided, and what it costs on one model."""

    method: Method
    budget: BudgetVector


def trainable_parameters(method: Method, shape: ModelShape) -> int:
    """The number of scalars that a resolved configuration trains on this model."""
    return method.trained_scalars(shape)


def solve(method: Method, shape: ModelShape, budget: int | None) -> Method:
    """The largest configuration of `method` that trains at most `budget` parameters.

    A size that the spec gives is kept and only checked. Raises `InvalidSpec` for a configuration
    that the model does not have, `InfeasibleBudget` with the nearest budgets for one too large.
    """
    check_method(method, shape)
    return fit(method, shape, budget)


def check_method(method: Method, shape: ModelShape) -> None:
    """Raise `InvalidSpec` for a configuration that the model does not have, at any budget."""
    if faults := method.problems(shape) or missing_sites(method, shape):
        raise InvalidSpec(*faults)


def fit(method: Method, shape: ModelShape, budget: int | None) -> Method:
    """Solve for a method that `check_method` has passed; raises `InfeasibleBudget`."""
    if budget is None:
        if method.size_is_free():
            raise _missing(method)
        return method
    least = method.smallest().trained_scalars(shape)
    if least > budget:
        raise _infeasible(method, budget, least)
    return method.within(shape, budget)


def budget_vector(method: Method, shape: ModelShape, requested: int | None) -> BudgetVector:
    """The cost of a resolved configuration, next to what was asked for."""
    tensors = {name: tensor.size for name, tensor in method.tensors(shape).items()}
    trained = sum(tensors.values())
    kept = method.kept()
    stored = trained if kept is method else kept.trained_scalars(shape)
    return BudgetVector(
        requested=requested,
        trainable_parameters=trained,
        gap=None if requested is None else requested - trained,
        stored_bytes=BYTES_PER_SCALAR * stored,
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
                f"Budget {budget} is too small for {method.name} on this model. The nearest "
                f"feasible budget is {least}."
            ),
            nearest=(least,),
        )
    )
