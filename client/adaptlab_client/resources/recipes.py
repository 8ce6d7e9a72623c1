"""Recipes: list, get and run; their studies have the reports."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from adaptlab_answers import recipes as answers
from adaptlab_answers.recipes import RecipeSummary, RecipeView
from adaptlab_answers.studies import StudyPreview, StudyView
from adaptlab_client.resources.studies import Studies
from adaptlab_client.transport.connection import Connection, Request, path_of

DEFAULT_PRESET = "quick"


class Recipes:
    """The recipes of one server: studies that repeat a table of a paper."""

    def __init__(self, connection: Connection, studies: Studies) -> None:
        self._connection = connection
        self._studies = studies

    def list(self) -> tuple[RecipeSummary, ...]:
        """Return all recipes, by name."""
        request = Request("GET", path_of("recipes"))
        return self._connection.ask(request, answers.RecipeList).data

    def get(self, name: str) -> RecipeView:
        """Return a recipe with the paper's tables and claims; raises `NotFound`."""
        return self._connection.ask(
            Request("GET", path_of("recipes", *name.split("/"))), RecipeView
        )

    def run(
        self,
        recipe: str,
        *,
        preset: str = DEFAULT_PRESET,
        seeds: int | Sequence[int] | None = None,
        name: str | None = None,
        resources: Mapping[str, object] | BaseModel | None = None,
        labels: Mapping[str, str] | None = None,
        base_models: Sequence[str] = (),
        dataset: str | None = None,
        idempotency_key: str | None = None,
    ) -> StudyView:
        """Create the study of a recipe.

        Wait for it with `Client.studies.wait`, and read it with `Client.studies.report`. The
        default name consists of recipe and preset, with a number if it is taken. `seeds` and
        `resources` replace those of the preset, `base_models` and `dataset` the names of those that
        it needs. Raises `InvalidRequest` for an unknown recipe or preset, with the nearest names,
        and for a base model or dataset that is missing, with the commands that provide it.
        """
        body = _request(recipe, preset, seeds, name, resources, labels, base_models, dataset)
        return self._studies.create(body, idempotency_key=idempotency_key)

    def preview(
        self,
        recipe: str,
        *,
        preset: str = DEFAULT_PRESET,
        seeds: int | Sequence[int] | None = None,
        name: str | None = None,
        resources: Mapping[str, object] | BaseModel | None = None,
        labels: Mapping[str, str] | None = None,
        base_models: Sequence[str] = (),
        dataset: str | None = None,
    ) -> StudyPreview:
        """Return the study that `run` would create, with its jobs and their time."""
        body = _request(recipe, preset, seeds, name, resources, labels, base_models, dataset)
        return self._studies.preview(body)


def _request(
    recipe: str,
    preset: str,
    seeds: int | Sequence[int] | None,
    name: str | None,
    resources: Mapping[str, object] | BaseModel | None,
    labels: Mapping[str, str] | None,
    base_models: Sequence[str],
    dataset: str | None,
) -> Mapping[str, object]:
    """Return the body of the request, without members left to the preset."""
    if isinstance(resources, BaseModel):
        resources = resources.model_dump(mode="json", exclude_unset=True)
    members = {
        "recipe": recipe,
        "preset": preset,
        "seeds": seeds if seeds is None or isinstance(seeds, int) else [*seeds],
        "name": name,
        "resources": resources and dict(resources),
        "labels": labels and dict(labels),
        "base_models": [*base_models] or None,
        "dataset": dataset,
    }
    return {member: value for member, value in members.items() if value is not None}
