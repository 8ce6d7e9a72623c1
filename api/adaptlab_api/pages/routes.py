"""The routers of the dashboard, in the order in which a request looks for its route."""

from fastapi import APIRouter, FastAPI

from adaptlab_api.pages.attention.routes import attention_chart_routes, attention_routes
from adaptlab_api.pages.base_models.routes import base_model_routes
from adaptlab_api.pages.catalogue.routes import catalogue_routes
from adaptlab_api.pages.comparisons.routes import compare_routes
from adaptlab_api.pages.jobs.routes import job_chart_routes, job_list_routes, job_routes
from adaptlab_api.pages.recipes.routes import recipe_routes
from adaptlab_api.pages.recommendations.routes import recommend_routes
from adaptlab_api.pages.rendering.assets import load_assets
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.pages.rendering.static_files import add_static_routes
from adaptlab_api.pages.signing_in.routes import sign_in_routes
from adaptlab_api.pages.studies.routes import study_routes
from adaptlab_api.pages.submitting.routes import new_job_routes, new_study_routes
from adaptlab_api.pages.tokens.routes import token_routes
from adaptlab_api.pages.workers.routes import worker_routes


def page_routers() -> tuple[APIRouter, ...]:
    """Every page; nothing of it is part of the API's description."""
    renderer = Renderer.load(load_assets())
    return (
        sign_in_routes(renderer),
        new_job_routes(renderer),  # before the jobs and studies of any name
        new_study_routes(renderer),
        job_list_routes(renderer),
        job_routes(renderer),
        job_chart_routes(),
        attention_routes(renderer),
        attention_chart_routes(),
        study_routes(renderer),
        compare_routes(renderer),
        recommend_routes(renderer),
        base_model_routes(renderer),
        catalogue_routes(renderer),
        recipe_routes(renderer),
        worker_routes(renderer),
        token_routes(renderer),
    )


def mount_static(app: FastAPI) -> None:
    """Serve the pages' own files and the chart library below `/static/`."""
    add_static_routes(app, load_assets())
