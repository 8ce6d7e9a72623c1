"""Studies created from recipes, and their departures from the recipe."""

from collections.abc import Mapping
from typing import Annotated, TypeVar

from pydantic import Field

from adaptlab.reproductions.claim import Preset
from adaptlab.reproductions.preset_needs import Need, datasets_of, replaced_names, with_datasets
from adaptlab.reproductions.recipe import RECIPES, Recipe, RecipeRef
from adaptlab.specs.spec import Label, LabelName, Labels, PretrainSpec, ResourcesSpec, Seeds
from adaptlab.studies.study import MOST_BASE_MODELS, StudyCheck, StudyMethod, StudySpec
from adaptlab.values import Name, Value

T = TypeVar("T", StudyMethod, StudyCheck)
OWN = {"name", "seeds", "resources", "labels"}
"""Members that the user decides; the recipe decides all others."""


class RecipeRequest(Value):
    """A request for a study by the name of its recipe.

    Without a `name`, the study is named after recipe and preset, with a number if that is taken.
    `seeds` and `resources` replace those of the preset, and of base models that are pretrained for
    it. A single base model that all seeds share stays single. `base_models` and `dataset` replace
    the names of those that the preset takes from outside, in the order of the recipe's needs.
    """

    recipe: Annotated[str, Field(max_length=120)]
    preset: Preset
    name: Name | None = None
    seeds: Seeds | None = None
    resources: ResourcesSpec | None = None
    labels: Labels = Field(default_factory=dict[LabelName, Label])
    base_models: Annotated[tuple[Name, ...], Field(max_length=MOST_BASE_MODELS)] = ()
    dataset: Name | None = None

    def reference(self) -> RecipeRef:
        """Return the recipe and preset, to be stored with the study."""
        return RecipeRef(name=self.recipe, preset=self.preset)


def recipe_named(name: str, pointer: str = "/recipe") -> Recipe:
    """Return the recipe of that name.

    Raises `UnknownName` at `pointer` with the nearest names.
    """
    return RECIPES.get(name, pointer)()


def study_of(request: RecipeRequest) -> StudySpec:
    """Return the requested study, before it is checked which names are taken.

    Raises `UnknownName` for the recipe, and `InvalidSpec` for a preset, seeds or names that it
    cannot have.
    """
    recipe = recipe_named(request.recipe)
    spec = recipe.study(
        request.preset,
        name=request.name,
        seeds=request.seeds,
        resources=request.resources,
        labels=request.labels,
    )
    bases, datasets = _replaced(recipe, request)
    return with_datasets(with_base_names(spec, bases), datasets)


def needs_of(request: RecipeRequest) -> tuple[Need, ...]:
    """Return what the study takes from outside, by the requested names."""
    recipe = recipe_named(request.recipe)
    bases, datasets = _replaced(recipe, request)
    names = {"base_model": bases, "dataset": datasets}
    return tuple(
        need.model_copy(update={"name": names[need.kind].get(need.name, need.name)})
        for need in recipe.needs.get(request.preset, ())
    )


def _replaced(
    recipe: Recipe, request: RecipeRequest
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    needs = recipe.needs.get(request.preset, ())
    return replaced_names(needs, request.base_models, request.dataset)


def with_base_names(spec: StudySpec, names: Mapping[str, str]) -> StudySpec:
    """Return the study with its base models renamed everywhere."""
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
    if others := spec.evaluation.base_models:
        renamed = tuple(names.get(name, name) for name in others)
        given["evaluation"] = spec.evaluation.model_copy(update={"base_models": renamed})
    return spec.model_copy(update=given) if bases else spec


def departures(recipe: Recipe, preset: Preset, spec: StudySpec) -> tuple[str, ...]:
    """Return the members in which a study differs from its recipe.

    It was extended, or cloned with changes, or created by an earlier version of the recipe. Name,
    seeds, resources, labels and the names of base models and datasets are not compared.
    """
    declared = recipe.preset(preset)
    datasets = dict(zip(datasets_of(spec), datasets_of(declared), strict=False))
    spec = with_datasets(spec, datasets)
    names = [base if isinstance(base, str) else base.name for base in spec.base_models]
    declared_names = [base if isinstance(base, str) else base.name for base in declared.base_models]
    actual = _compared(with_base_names(spec, dict(zip(names, declared_names, strict=False))))
    wanted = _compared(declared)
    return tuple(name for name in wanted if actual[name] != wanted[name])


def _compared(spec: StudySpec) -> dict[str, object]:
    """Return the members that a recipe decides, in a comparable form."""
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
