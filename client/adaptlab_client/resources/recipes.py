"""Recipes: list, look, and run; the reports are those of their studies."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from adaptlab_answers import recipes as answers
from adaptlab_answers.recipes import RecipeSummary, RecipeView
from adaptlab_answers.studies import StudyPreview, StudyView
from adaptlab_client.resources.studies import Studies
from adaptlab_client.transport.connection import Connection, Request, path_of

DEFAULT_PRESET = "quick"


class Recipes:
    """The recipes of one server: studies that repeat a table of a paper, by name."""

    def __init__(self, connection: Connection, studies: Studies) -> None:
        self._connection = connection
        self._studies = studies

    def list(self) -> tuple[RecipeSummary, ...]:
        """All of them, by name."""
        request = Request("GET", path_of("recipes"))
        return self._connection.ask(request, answers.Recipes).data

    def get(self, name: str) -> RecipeView:
        """One of them, with the paper's tables and claims; raises `NotFound`."""
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
        idempotency_key: str | None = None,
    ) -> StudyView:
        """Make the study of a recipe; `Client.studies.wait` waits for it and `report` reads it.

        Without a `name` the study is called after recipe and preset, with a number where that is
        taken. `seeds` and `resources` replace those of the preset. Raises `InvalidRequest` with
        the nearest names for a recipe or a preset that is not there.
        """
        body = _request(recipe, preset, seeds, name, resources, labels)
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
    ) -> StudyPreview:
        """What `run` would make: jobs, cells, passes and time."""
        return self._studies.preview(_request(recipe, preset, seeds, name, resources, labels))


def _request(
    recipe: str,
    preset: str,
    seeds: int | Sequence[int] | None,
    name: str | None,
    resources: Mapping[str, object] | BaseModel | None,
    labels: Mapping[str, str] | None,
) -> Mapping[str, object]:
    """The body that asks for a study of the recipe, without what is left to the preset."""
    if isinstance(resources, BaseModel):
        resources = resources.model_dump(mode="json", exclude_unset=True)
    given = {
        "recipe": recipe,
        "preset": preset,
        "seeds": seeds if seeds is None or isinstance(seeds, int) else [*seeds],
        "name": name,
        "resources": resources and dict(resources),
        "labels": labels and dict(labels),
    }
    return {member: value for member, value in given.items() if value is not None}
