"""Routes of the list of recipes, one recipe, and its button."""

from urllib.parse import quote

from fastapi import APIRouter, BackgroundTasks, Request
from fastapi.responses import RedirectResponse, Response

from adaptlab.errors import InvalidSpec
from adaptlab.reproductions.claim import Preset
from adaptlab.reproductions.recipe_study import RecipeRequest
from adaptlab_api.limits.auditing import noted
from adaptlab_api.pages.recipes.page import recipe_list, recipe_page
from adaptlab_api.pages.rendering.navigation import NavigationEntry
from adaptlab_api.pages.rendering.parameters import ReaderDep, server_address
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.requests.dependencies import ResourcesDep, SessionDep, SubmitterDep
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.requests.study_request import study_rules
from adaptlab_services.errors import Absent, LimitReached
from adaptlab_services.recipes import recipe_studies

HERE = "/recipes"
NAVIGATION = NavigationEntry(5, "Recipes", HERE)
CANNOT_RUN = "This recipe cannot be run here"
NO_RECIPE = "No installed recipe has this name. The name may be mistyped."


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (recipe_routes(renderer),)


def recipe_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the list, one recipe, and its button."""
    router = closed_router(HERE)

    @router.get("")
    @needs("reader")
    def recipes_page(principal: ReaderDep) -> Response:
        return renderer.page(
            "recipes.html", {"principal": principal, "here": HERE, **recipe_list()}
        )

    @router.get("/{name:path}")
    @needs("reader")
    def one_recipe(name: str, request: Request, principal: ReaderDep) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        try:
            content = recipe_page(name, server_address(request))
        except Absent:
            return renderer.fault(404, "There is no such recipe", NO_RECIPE, shown)
        return renderer.page("recipe.html", {**shown, **content})

    @router.post("/{name:path}/run/{preset}")
    @needs("submitter")
    def run_recipe(
        name: str,
        preset: Preset,
        request: Request,
        session: SessionDep,
        principal: SubmitterDep,
        opened: ResourcesDep,
        background: BackgroundTasks,
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        asked = RecipeRequest(recipe=name, preset=preset)
        try:
            # The page about a refusal commits, so what was written before it is rolled back here.
            with session.begin_nested():
                created = recipe_studies.create(session, principal, asked, study_rules(opened))
        except InvalidSpec as fault:
            return renderer.fault(422, CANNOT_RUN, f"{fault}", shown)
        except LimitReached as fault:
            return renderer.fault(429, CANNOT_RUN, f"{fault}", shown)
        background.add_task(opened.bell.ring, created.queues)  # after the commit
        place = f"/studies/{quote(created.study.name, safe='')}"
        return noted(session, request, RedirectResponse(place, 303))

    return router
