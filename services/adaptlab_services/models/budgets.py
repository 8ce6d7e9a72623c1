"""Budget queries: the size and cost of every method at a budget."""

from typing import Annotated
from uuid import UUID

from pydantic import Field, TypeAdapter
from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.family import FAMILIES, AnyFamily, Family
from adaptlab.plugins.method import METHODS, Method
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.sizing import BudgetAxis
from adaptlab.specs.budget import budget_vector, solve
from adaptlab.specs.choices import configured, resolve_method, resolve_task
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.sized_method import budget_limit
from adaptlab.specs.spec import Budget, BudgetSpec, Choice, NamedChoice
from adaptlab.values import Name, Value
from adaptlab_answers.models import BudgetAnswer, MethodAnswer, ProblemView
from adaptlab_db.tables import HubFetch
from adaptlab_services.models import base_models, datasets

_FAMILY: TypeAdapter[Family] = TypeAdapter(AnyFamily)


class BudgetQuestion(Value):
    """A budget, and a base model by name or as a family with its task.

    Instead of these, `fetch` is the id of a fetch from the hub, whose plan has the model. Without
    `methods`, the budget is solved for all registered ones.
    """

    base_model: Name | None = None
    fetch: UUID | None = None
    family: NamedChoice | None = None
    task: NamedChoice | None = None
    budget: Budget = BudgetSpec()
    methods: Annotated[tuple[NamedChoice, ...], Field(max_length=64)] = ()


def answer(session: Session, question: BudgetQuestion) -> BudgetAnswer:
    """Solve the budget for every method.

    A method that does not fit is part of the answer; invalid knobs are an error.

    Raises:
        InvalidSpec: the question is invalid.
    """
    shape = _shape(session, question)
    limit = budget_limit(question.budget, shape)
    return BudgetAnswer(
        base_model=question.base_model,
        base_parameters=shape.parameters,
        axis=question.budget.axis,
        requested=limit,
        data=tuple(
            _answer(method, shape, limit, question.budget.axis) for method in _asked(question)
        ),
    )


def _shape(session: Session, question: BudgetQuestion) -> ModelShape:
    named = (question.base_model, question.family, question.fetch)
    if sum(one is not None for one in named) != 1:
        detail = "Give either base_model, or family with task, or fetch."
        raise InvalidSpec(Problem("/base_model", "base_model_or_family", detail))
    if question.fetch is not None:
        return _planned(session, question.fetch)
    if question.base_model is not None:
        return family_shape(base_models.facts(session, question.base_model).family)
    assert question.family is not None
    chosen = FAMILIES.get(question.family.name, "/family/name")
    family = configured(chosen, question.family, "/family")
    if problems := family.problems():
        raise InvalidSpec(*problems)
    if question.task is None:
        detail = "A family needs a task, which determines vocabulary and context. Give a task."
        raise InvalidSpec(Problem("/task", "missing", detail))
    task = resolve_task(question.task, "/task", datasets.known(session))
    return family.resolved(task.vocabulary(), task.sequence_length()).shape()


def _planned(session: Session, fetch: UUID) -> ModelShape:
    """Return the shape of the model in the plan of a fetch."""
    plan = session.scalars(select(HubFetch.plan).where(HubFetch.id == fetch)).one_or_none()
    if plan is None:
        detail = f"There is no plan of the fetch {fetch}. Wait until it has read the repository."
        raise InvalidSpec(Problem("/fetch", "no_plan", detail))
    return family_shape(_FAMILY.validate_python(plan["family"]))


def _asked(question: BudgetQuestion) -> tuple[Method, ...]:
    choices = question.methods or tuple(Choice(name=name) for name in METHODS.names())
    return tuple(
        resolve_method(choice, f"/methods/{index}") for index, choice in enumerate(choices)
    )


def _answer(method: Method, shape: ModelShape, limit: int | None, axis: BudgetAxis) -> MethodAnswer:
    try:
        solved = solve(method, shape, limit, axis)
    except InvalidSpec as error:
        return _refusal(method, error)
    return MethodAnswer(
        name=method.name,
        feasible=True,
        fixed_size=not method.size_is_free(),
        method=solved.model_dump(mode="json"),
        budget=budget_vector(solved, shape, limit, axis),
        problems=(),
        nearest=(),
    )


def _refusal(method: Method, error: InvalidSpec) -> MethodAnswer:
    return MethodAnswer(
        name=method.name,
        feasible=False,
        fixed_size=not method.size_is_free(),
        method=None,
        budget=None,
        problems=tuple(
            ProblemView(
                pointer=p.pointer,
                code=p.code,
                detail=p.detail,
                allowed=p.allowed,
                nearest=p.nearest,
            )
            for p in error.problems
        ),
        nearest=tuple(
            value
            for p in error.problems
            if p.code == "infeasible_budget"
            for value in p.nearest
            if isinstance(value, int)
        ),
    )
