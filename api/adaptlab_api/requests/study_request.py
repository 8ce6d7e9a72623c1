"""Requests for a study, by its spec or by the name of a recipe."""

from collections.abc import Mapping
from typing import cast

from pydantic import TypeAdapter

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.reproductions.recipe_study import RecipeRequest
from adaptlab.studies.study import StudySpec
from adaptlab_api.answers.state import Resources
from adaptlab_api.requests import strict_json
from adaptlab_api.requests.dependencies import valid
from adaptlab_services.studies.studies import Rules

ONLY_OF_RECIPES = {"recipe", "preset"}
ONLY_OF_SPECS = StudySpec.model_fields.keys() - RecipeRequest.model_fields.keys()

_SPEC = TypeAdapter(StudySpec)
_RECIPE = TypeAdapter(RecipeRequest)


def asked_study(body: bytes) -> StudySpec | RecipeRequest:
    """Return the request in a body; raises `Refused` or `InvalidSpec`."""
    document: object = strict_json.parse(body)
    named: set[str] = set()
    if isinstance(document, Mapping):
        named |= cast("Mapping[str, object]", document).keys()
    if not named & ONLY_OF_RECIPES:
        return valid(_SPEC, body)
    if both := sorted(named & ONLY_OF_SPECS):
        raise InvalidSpec(*(_of_a_spec(member) for member in both))
    return valid(_RECIPE, body)


def study_rules(opened: Resources) -> Rules:
    """Return the limits of this server on a study."""
    return Rules(
        most_jobs=opened.settings.max_study_jobs,
        roots=opened.model_roots,
        most_queued=opened.settings.max_queued_jobs,
    )


def _of_a_spec(member: str) -> Problem:
    detail = (
        f"{member!r} belongs to the spec of a study, but the body names a recipe, which has its "
        "own spec. Leave out one of the two. To change a recipe, submit the spec of its preset."
    )
    return Problem(f"/{member}", "recipe_and_spec", detail)
