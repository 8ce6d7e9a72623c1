"""The method of an adaptation, at the size that its budget allows."""

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.task import Task
from adaptlab.specs.budget import Solution, budget_vector, check_fit, fit, solve
from adaptlab.specs.choices import resolve_method
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.spec import AdaptSpec, BudgetSpec


def budget_limit(budget: BudgetSpec, shape: ModelShape) -> int | None:
    """Return the most that `budget` allows on a model, on its axis."""
    members = ("trainable_parameters", "fraction_of_base", "context_tokens")
    if sum(getattr(budget, name) is not None for name in members) > 1:
        raise InvalidSpec(
            Problem(
                pointer="/budget",
                code="ambiguous_budget",
                detail=f"Give only one of {members[0]}, {members[1]} and {members[2]}.",
                allowed=members,
            )
        )
    if budget.fraction_of_base is not None:
        return int(budget.fraction_of_base * shape.parameters)
    return budget.trainable_parameters or budget.context_tokens


def sized_method(spec: AdaptSpec, task: Task, family: Family) -> Solution:
    """Return the method of a spec at its budget, for any task with this head."""
    shape = family_shape(family, task.classes())
    limit = budget_limit(spec.budget, family_shape(family))
    if spec.method is None:
        detail = "Give a method to train, or the folder of an adapter to import."
        raise InvalidSpec(Problem("/method", "missing", detail))
    method = solve(resolve_method(spec.method), shape, limit, spec.budget.axis)
    return Solution(method, budget_vector(method, shape, limit, spec.budget.axis))


def on_task(spec: AdaptSpec, solution: Solution, task: Task, family: Family) -> Solution:
    """Return the solution with what follows from the task.

    Raises:
        InvalidSpec: the method cannot be used for the task.
        InfeasibleBudget: it needs more for the task than the budget has.
    """
    shape, asked = family_shape(family, task.classes()), solution.budget
    method, needed = solution.method.for_task(task), task.content_length(family)
    if method is not solution.method and spec.method is not None:
        given = resolve_method(spec.method).for_task(task)
        if given.size_is_free():  # the task decides what a size costs
            method = fit(given, shape, asked.requested, asked.axis)
            method = method.fitting(task, family, needed)
    if problems := method.task_problems(task, family, needed):
        raise InvalidSpec(*problems)
    if spec.capture.attention is not None and method.moves_content:
        detail = (
            f"Attention is compared at equal positions, and {method.name} moves the question. Leave"
            " the capture out."
        )
        raise InvalidSpec(Problem("/capture/attention", "question_moves", detail))
    if method is solution.method:
        return solution
    check_fit(method, shape, asked.requested, asked.axis)
    return Solution(method, budget_vector(method, shape, asked.requested, asked.axis))
