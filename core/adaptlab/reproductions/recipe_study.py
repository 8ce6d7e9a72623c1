"""From a request for a recipe to a study, and how far a study has since left its recipe."""

from collections.abc import Mapping
from typing import Annotated, TypeVar

from pydantic import Field

from adaptlab.reproductions.recipe import RECIPES, Preset, Recipe, RecipeRef
from adaptlab.specs.spec import Label, LabelName, Labels, PretrainSpec, ResourcesSpec, Seeds
from adaptlab.studies.study import StudyCheck, StudyMethod, StudySpec
from adaptlab.values import Name, Value

T = TypeVar("T", StudyMethod, StudyCheck)
OWN = {"name", "seeds", "resources", "labels"}
"""What whoever runs a recipe decides; everything else is the recipe's."""


class RecipeRequest(Value):
    """A study by the name of its recipe.

    Without a `name` it is called after recipe and preset, with a number where that is taken.
    `seeds` and `resources` replace those of the preset, also of base models that are made for it;
    a single base model that all seeds share stays a single one.
    """

    recipe: Annotated[str, Field(max_length=120)]
    preset: Preset
    name: Name | None = None
    seeds: Seeds | None = None
    resources: ResourcesSpec | None = None
    labels: Labels = Field(default_factory=dict[LabelName, Label])

    def reference(self) -> RecipeRef:
        """What a study remembers of it."""
        return RecipeRef(name=self.recipe, preset=self.preset)


def recipe_named(name: str, pointer: str = "/recipe") -> Recipe:
    """The recipe of that name; raises `UnknownName` at `pointer` with the nearest ones."""
    return RECIPES.get(name, pointer)()


def study_of(request: RecipeRequest) -> StudySpec:
    """The study that is asked for, before anybody looks which names are taken.

    Raises `UnknownName` for the recipe and `InvalidSpec` for what it cannot have.
    """
    return recipe_named(request.recipe).study(
        request.preset,
        name=request.name,
        seeds=request.seeds,
        resources=request.resources,
        labels=request.labels,
    )


def with_base_names(spec: StudySpec, names: Mapping[str, str]) -> StudySpec:
    """The study with base models of other names, also where methods and checks name them."""
    bases = tuple(
        names.get(base, base)
        if isinstance(base, str)
        else base.model_copy(update={"name": names.get(base.name, base.name)})
        for base in spec.base_models
    )
    given: dict[str, object] = {"base_models": bases}
    if spec.methods and spec.methods != "all":
        given["methods"] = tuple(_rebased(method, names) for method in spec.methods)
    if spec.checks:
        given["checks"] = tuple(_rebased(check, names) for check in spec.checks)
    return spec.model_copy(update=given) if bases else spec


def departures(recipe: Recipe, preset: Preset, spec: StudySpec) -> tuple[str, ...]:
    """The members in which a study is no longer what the recipe asks for, by name.

    It was extended, or cloned with changes, or made by an earlier version of the recipe. Name,
    seeds, resources and labels are everybody's own.
    """
    asked = recipe.preset(preset)
    names = [base if isinstance(base, str) else base.name for base in spec.base_models]
    known = [base if isinstance(base, str) else base.name for base in asked.base_models]
    there = _compared(with_base_names(spec, dict(zip(names, known, strict=False))))
    wanted = _compared(asked)
    return tuple(name for name in wanted if there[name] != wanted[name])


def _compared(spec: StudySpec) -> dict[str, object]:
    """The members that a recipe decides, in a form that can be compared."""
    bases = tuple(
        base.model_dump(mode="json", exclude=OWN) if isinstance(base, PretrainSpec) else base
        for base in spec.base_models
    )
    return {**spec.model_dump(mode="json", exclude=OWN), "base_models": bases}


def _rebased(entry: T, names: Mapping[str, str]) -> T:
    if entry.base_models is None:
        return entry
    renamed = tuple(names.get(name, name) for name in entry.base_models)
    return entry.model_copy(update={"base_models": renamed})
