"""The budget solver: from a number of trainable parameters to the configuration that fits."""

from adaptlab.errors import InfeasibleBudget, InvalidSpec, Problem
from adaptlab.method import Method
from adaptlab.shapes import ModelShape
from adaptlab.values import AUTO, Value

BYTES_PER_SCALAR = 4


class BudgetVector(Value):
    """What an adaptation costs, on every axis on which methods are compared.

    `gap` is the part of the requested budget that the configuration leaves unused,
    `stored_bytes` counts float32 tensors, `flops_per_token` one forward pass of base and
    adaptation without the attention products, `tensors` the scalars of each trainable tensor.
    """

    requested: int | None
    trainable_parameters: int
    gap: int | None
    stored_bytes: int
    extra_context_tokens: int
    flops_per_token: int
    tensors: dict[str, int]


class Solution(Value):
    """A method whose every knob is decided, and what it costs on one model."""

    method: dict[str, object]
    budget: BudgetVector


def trainable_parameters(method: Method, shape: ModelShape) -> int:
    """The number of scalars that a resolved configuration trains on this model."""
    return sum(tensor.size for tensor in method.tensors(shape).values())


def solve(method: Method, shape: ModelShape, budget: int | None) -> Method:
    """The largest configuration of `method` that trains at most `budget` parameters.

    A size that the spec gives is kept and only checked. Raises `InvalidSpec` for a configuration
    that the model does not have, `InfeasibleBudget` with the nearest budgets for one too large.
    """
    faults = method.problems(shape)
    if faults:
        raise InvalidSpec(*faults)
    if not _size_is_free(method):
        return _checked(method, shape, budget)
    if budget is None:
        raise InvalidSpec(
            Problem(
                pointer="/budget",
                code="budget_missing",
                detail=f"Give a budget, or the {method.size_knob} of {method.name} itself.",
            )
        )
    return _largest_within(method, shape, budget)


def budget_vector(method: Method, shape: ModelShape, requested: int | None) -> BudgetVector:
    """The cost of a resolved configuration, next to what was asked for."""
    tensors = {name: tensor.size for name, tensor in method.tensors(shape).items()}
    trained = sum(tensors.values())
    return BudgetVector(
        requested=requested,
        trainable_parameters=trained,
        gap=None if requested is None else requested - trained,
        stored_bytes=BYTES_PER_SCALAR * trained,
        extra_context_tokens=method.extra_context_tokens(),
        flops_per_token=shape.forward_flops_per_token() + method.extra_flops_per_token(shape),
        tensors=tensors,
    )


def _size_is_free(method: Method) -> bool:
    return method.size_knob is not None and getattr(method, method.size_knob) == AUTO


def _checked(method: Method, shape: ModelShape, budget: int | None) -> Method:
    trained = trainable_parameters(method, shape)
    if budget is not None and trained > budget:
        raise _infeasible(method, budget, (trained,))
    return method


def _largest_within(method: Method, shape: ModelShape, budget: int) -> Method:
    def count(size: int) -> int:
        return trainable_parameters(method.with_size(size), shape)

    smallest, limit = count(1), method.largest_size(shape)
    if smallest > budget:
        raise _infeasible(method, budget, (smallest,))
    low, high = 1, limit  # count(low) <= budget throughout
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(middle) <= budget else (low, middle - 1)
    return method.with_size(low)


def _infeasible(method: Method, budget: int, nearest: tuple[int, ...]) -> InfeasibleBudget:
    least = min(nearest)
    return InfeasibleBudget(
        Problem(
            pointer="/budget/trainable_parameters",
            code="infeasible_budget",
            detail=(
                f"{method.name} cannot train at most {budget} parameters on this model; "
                f"the nearest budget that it can meet is {least}."
            ),
            nearest=nearest,
        )
    )
