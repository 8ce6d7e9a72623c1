"""Budget solver: the largest configuration within a budget."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from adaptlab.errors import InfeasibleBudget, InvalidSpec, Problem
from adaptlab.plugins.sizing import PARAMETERS, TOKENS, UNITS, BudgetAxis
from adaptlab.values import Value

if TYPE_CHECKING:
    from adaptlab.plugins.method import Method
    from adaptlab.plugins.shapes import ModelShape

BYTES_PER_SCALAR = 4


class BudgetVector(Value):
    """The cost of an adaptation in all respects that methods are compared in.

    - `axis` is what the requested budget limits, and `gap` is its unused part.
    - `stored_bytes` is the size of the stored tensors in float32. It can be smaller than the size
      of the trained tensors.
    - `stored_bits` is the information in the stored tensors, less than their size if they are
      embeddings of tokens. Jobs of earlier versions do not have it.
    - `flops_per_token` is the cost of a forward pass of base model and adaptation, without the
      attention products.
    - `tensors` has the number of parameters of each trainable tensor.

    In a job's answer, `trainable_parameters` is an alias of the job's member of that name.
    """

    axis: BudgetAxis = Field(
        default=PARAMETERS,
        exclude_if=lambda axis: axis == PARAMETERS,  # older jobs keep their digests
    )
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

    method: "Method"
    budget: BudgetVector


def trainable_parameters(method: "Method", shape: "ModelShape") -> int:
    """Return the number of trainable parameters of a resolved configuration."""
    return method.trained_scalars(shape)


def solve(
    method: "Method", shape: "ModelShape", budget: int | None, axis: BudgetAxis = PARAMETERS
) -> "Method":
    """Return the largest configuration of `method` within a budget on an axis.

    A size that the spec sets is kept and only checked.

    Raises:
        InvalidSpec: the model does not support the configuration, or the budget cannot size it.
        InfeasibleBudget: even the smallest configuration exceeds the budget.
    """
    check_method(method, shape)
    check_axis(method, axis)
    return fit(method, shape, budget, axis)


def check_method(method: "Method", shape: "ModelShape") -> None:
    """Raise `InvalidSpec` if the model does not support the configuration."""
    from adaptlab.plugins.sites import missing_sites  # loads the plug-ins, as answers need not

    if problems := method.problems(shape) or missing_sites(method, shape):
        raise InvalidSpec(*problems)


def check_axis(method: "Method", axis: BudgetAxis) -> None:
    """Raise `InvalidSpec` if a budget on this axis cannot size the method."""
    if method.size_is_free() and not method.is_sized_by(axis):
        raise _unsized(method, axis)


def fit(
    method: "Method", shape: "ModelShape", budget: int | None, axis: BudgetAxis = PARAMETERS
) -> "Method":
    """Return the solution for a method that both checks have accepted.

    Raises:
        InfeasibleBudget: even the smallest configuration exceeds the budget.
    """
    if budget is None:
        if method.size_is_free():
            raise _missing(method)
        return method
    check_fit(method.smallest(), shape, budget, axis)
    return method.within(shape, budget, axis)


def check_fit(method: "Method", shape: "ModelShape", budget: int | None, axis: BudgetAxis) -> None:
    """Raise `InfeasibleBudget` if a configuration exceeds the budget."""
    cost = method.cost(shape, axis)
    if budget is not None and cost > budget:
        raise _infeasible(method, budget, cost, axis)


def budget_vector(
    method: "Method", shape: "ModelShape", requested: int | None, axis: BudgetAxis = PARAMETERS
) -> BudgetVector:
    """Return the cost of a resolved configuration."""
    tensors = {name: tensor.size for name, tensor in method.trained(shape).items()}
    trained = sum(tensors.values())
    kept = method.kept()
    stored = trained if kept is method else kept.trained_scalars(shape)
    return BudgetVector(
        axis=axis,
        requested=requested,
        trainable_parameters=trained,
        gap=None if requested is None else requested - method.cost(shape, axis),
        stored_bytes=BYTES_PER_SCALAR * stored,
        stored_bits=method.stored_bits(shape),
        extra_context_tokens=method.extra_context_tokens(),
        flops_per_token=shape.forward_flops_per_token() + method.extra_flops_per_token(shape),
        tensors=tensors,
    )


def whole_model(shape: "ModelShape") -> BudgetVector:
    """Return the cost of a model that is trained as a whole."""
    tensors = {name: tensor.size for name, tensor in shape.tensors.items()}
    return BudgetVector(
        requested=None,
        trainable_parameters=shape.parameters,
        gap=None,
        stored_bytes=BYTES_PER_SCALAR * shape.parameters,
        extra_context_tokens=0,
        flops_per_token=shape.forward_flops_per_token(),
        tensors=tensors,
    )


def _missing(method: "Method") -> InvalidSpec:
    return InvalidSpec(
        Problem(
            pointer="/budget",
            code="budget_missing",
            detail=f"Give a budget, or set the {method.size_knob or 'sizes'} of {method.name}.",
        )
    )


def _unsized(method: "Method", axis: BudgetAxis) -> InvalidSpec:
    sizes = f"its {method.size_knob}" if method.size_knob else "the sizes of its parts"
    other = TOKENS if axis == PARAMETERS else PARAMETERS
    detail = (
        f"A budget in {UNITS[axis]} does not determine the size of {method.name}, which can grow "
        f"without any. Set {sizes}, or give a budget in {UNITS[other]}."
    )
    return InvalidSpec(Problem(f"/budget/{axis}", "budget_of_other_axis", detail))


def _infeasible(method: "Method", budget: int, least: int, axis: BudgetAxis) -> InfeasibleBudget:
    return InfeasibleBudget(
        Problem(
            pointer=f"/budget/{axis}",
            code="infeasible_budget",
            detail=(
                f"Budget {budget:,} is too small for {method.name} on this model, whose smallest "
                f"configuration has {least:,} {UNITS[axis]}. Use {least:,} or more."
            ),
            nearest=(least,),
        )
    )
