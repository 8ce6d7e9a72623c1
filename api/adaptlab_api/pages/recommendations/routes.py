"""Routes of the page of recommendations, and of the jobs that it proposes."""

from collections.abc import Mapping, Sequence
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, BackgroundTasks, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response

from adaptlab.errors import InvalidSpec
from adaptlab_api.answers.problems import answer
from adaptlab_api.limits.auditing import noted
from adaptlab_api.pages.recommendations.page import HERE, FormFields, once, recommend_page
from adaptlab_api.pages.rendering.forms import small_form_fields
from adaptlab_api.pages.rendering.navigation import NavigationEntry
from adaptlab_api.pages.rendering.parameters import ReaderDep
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.requests.dependencies import ResourcesDep, SubmitterDep, UnitsDep
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.requests.study_request import study_rules
from adaptlab_services.errors import Forbidden, LimitReached, StateConflict
from adaptlab_services.recommendations import recommendations, recommended_jobs
from adaptlab_services.recommendations.recommended_jobs import Submitted

NAVIGATION = NavigationEntry(4, "Recommend", HERE)
Typed = Annotated[str, Query(max_length=120)]
FieldsDep = Annotated[Mapping[str, Sequence[str]], Depends(small_form_fields)]


# A coroutine, though it waits for nothing: see `adaptlab_api.requests.dependencies.at_once`.
async def _asked(
    task: Annotated[str, Query(max_length=600)] = "",
    base_model: Typed = "",
    parameters: Typed = "",
    budget: Typed = "",
    share: Typed = "",
    seconds: Typed = "",
) -> FormFields:
    # `budget` is accepted too, because the file of a job has that name.
    return FormFields(task, base_model, parameters or budget, share, seconds)


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (recommend_routes(renderer),)


def recommend_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the form and of its buttons."""
    router = closed_router(HERE)

    @router.get("", name="recommend_page")
    @needs("reader")
    def ask(
        units: UnitsDep,
        principal: ReaderDep,
        opened: ResourcesDep,
        asked: Annotated[FormFields, Depends(_asked)],
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        content = recommend_page(units, asked, study_rules(opened))
        return renderer.page(
            "recommend.html", {**shown, **content}, 400 if content["faults"] else 200
        )

    @router.post("", name="submit_recommended")
    @needs("submitter")
    def submit(
        fields: FieldsDep,
        request: Request,
        units: UnitsDep,
        principal: SubmitterDep,
        opened: ResourcesDep,
        background: BackgroundTasks,
    ) -> Response:
        asked, rules = FormFields.read(fields), study_rules(opened)
        wanted = fields.get("submit", ["all"])[0]
        try:
            proposal = recommendations.recommend(units, asked.question(), rules)
            with units() as session:
                submitted = recommended_jobs.submit(
                    session, principal, proposal, rules, wanted, once(fields)
                )
                response = noted(session, request, RedirectResponse(_where(submitted), 303))
        except (InvalidSpec, StateConflict, LimitReached, Forbidden) as refusal:
            problem = answer(refusal)
            status = 422 if problem is None else problem.status_code
            content = recommend_page(units, asked, rules, refusal)
            shown: dict[str, object] = {"principal": principal, "here": HERE}
            return renderer.page("recommend.html", {**shown, **content}, status)
        background.add_task(opened.bell.ring, submitted.queues)  # after the commit
        return response

    return router


def _where(submitted: Submitted) -> str:
    """Return the address of the study or job, or of the list for several jobs."""
    if submitted.study is not None:
        return f"/studies/{quote(submitted.study, safe='')}"
    return f"/jobs/{submitted.jobs[0]}" if len(submitted.jobs) == 1 else "/"
