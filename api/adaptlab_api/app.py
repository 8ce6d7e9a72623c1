"""The application: what it is made of, and in which order a request goes through it."""

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from importlib.metadata import version
from typing import Any

from anyio import to_thread
from fastapi import FastAPI
from sqlalchemy.orm import Session, sessionmaker
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from adaptlab_api.answers import problems
from adaptlab_api.answers.answer_headers import AnswerHeaders
from adaptlab_api.answers.feed import Feed
from adaptlab_api.answers.state import Resources
from adaptlab_api.doors.body_limit import BodyLimit, limits_of_bodies
from adaptlab_api.doors.gate import Gate
from adaptlab_api.doors.open_requests import OpenRequests
from adaptlab_api.doors.request_rate import RequestRate, WrongTokens
from adaptlab_api.doors.time_limit import TimeLimit
from adaptlab_api.limits.auditing import AuditLog
from adaptlab_api.limits.buckets import Buckets
from adaptlab_api.limits.turns import Turns
from adaptlab_api.openapi import describe
from adaptlab_api.pages.rendering import problem_pages
from adaptlab_api.pages.rendering.problem_pages import ProblemPages, page_renderer
from adaptlab_api.pages.routes import mount_static, page_routers
from adaptlab_api.routes.attention import attention_router
from adaptlab_api.routes.base_models import base_models_router
from adaptlab_api.routes.budgets import budgets_router
from adaptlab_api.routes.bundles import bundles_router
from adaptlab_api.routes.catalogue import catalogue_router
from adaptlab_api.routes.checkpoints import checkpoints_router
from adaptlab_api.routes.comparisons import comparisons_router
from adaptlab_api.routes.datasets import datasets_router
from adaptlab_api.routes.events import events_router
from adaptlab_api.routes.jobs import jobs_router
from adaptlab_api.routes.leases import leases_router
from adaptlab_api.routes.people import people_router
from adaptlab_api.routes.queries import queries_router
from adaptlab_api.routes.recipes import recipes_router
from adaptlab_api.routes.recommendations import recommendations_router
from adaptlab_api.routes.results import results_router
from adaptlab_api.routes.server import description_router, health_router, server_router
from adaptlab_api.routes.studies import studies_router
from adaptlab_api.routes.uploads import uploads_router
from adaptlab_db.session import close
from adaptlab_db.visibility import guarded
from adaptlab_services.comparisons.comparison_runs import ComparisonRuns
from adaptlab_services.comparisons.plot_drawing import DRAWERS
from adaptlab_services.leases.token_leases import sessions_of_workers
from adaptlab_services.lifecycle import events
from adaptlab_services.lifecycle.doorbell import Bell
from adaptlab_services.people import admission
from adaptlab_services.people.admission import Admissions, Admitted
from adaptlab_services.server.readiness import Readiness
from adaptlab_services.server.stores import open_sessions
from adaptlab_services.settings import Settings

THREADS = 20
"""As many as there can be connections: a request waits for a thread, not in one."""


class Application(FastAPI):
    """FastAPI with our own description of it."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, made anew: only its text is kept (see `get_description`)."""
        return describe(self)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application for these settings, or for those of the environment."""
    # The environment fills in what the constructor is not given.
    known = settings or Settings()  # pyright: ignore[reportCallIssue]
    renderer = page_renderer()
    app = Application(
        title="adaptlab",
        version=version("adaptlab"),
        summary="Which adaptation method works for my task at this parameter budget, and why?",
        # FastAPI's own routes for these would load scripts from another site.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan(known),
        middleware=[
            Middleware(AnswerHeaders),
            Middleware(ProblemPages, renderer=renderer),
            Middleware(TimeLimit, seconds=known.answer_seconds),
            Middleware(
                BodyLimit, limit_of=limits_of_bodies(known.max_body_bytes, known.max_upload_bytes)
            ),
            Middleware(WrongTokens, settings=known),
            Middleware(Gate),
            Middleware(RequestRate, settings=known),
            Middleware(OpenRequests, settings=known),
        ],
    )
    app.state.settings = known
    problems.install(app)
    problem_pages.install(app, renderer)
    app.router.routes.extend(_routes())
    mount_static(app)
    return app


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """Every route but the static files, made once in a process: those that are busy come first.

    No route knows the settings or the application; reading the parameters of them all takes a
    quarter of a second, which each application of a process of tests would spend again.
    """
    routers = (
        jobs_router(),
        leases_router(),
        events_router(),
        results_router(),
        queries_router(),
        attention_router(),
        checkpoints_router(),
        base_models_router(),
        datasets_router(),
        uploads_router(),
        catalogue_router(),
        budgets_router(),
        studies_router(),
        comparisons_router(),
        bundles_router(),
        recommendations_router(),
        recipes_router(),
        people_router(),
        server_router(),
        health_router(),
        description_router(),
        *page_routers(),
    )
    return tuple(route for router in routers for route in router.routes)


def _lifespan(settings: Settings) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def run(app: FastAPI) -> AsyncGenerator[None]:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        sessions = open_sessions(settings)
        feed = Feed(events.Lookout(sessions), _still_good(sessions))
        buckets = Buckets(settings.broker_url)
        readiness = Readiness(settings)
        audit_log = AuditLog(sessions)
        guarded_sessions, bell = guarded(sessions), Bell(settings.broker_url)
        comparisons = ComparisonRuns(guarded_sessions)
        app.state.resources = Resources(
            settings=settings,
            sessions=guarded_sessions,
            worker_sessions=sessions_of_workers(guarded_sessions),
            admissions=Admissions(guarded_sessions),
            bell=bell,
            audit_log=audit_log,
            feed=feed,
            buckets=buckets,
            readiness=readiness,
            drawings=Turns(DRAWERS),
            comparisons=comparisons,
        )
        try:
            yield
        finally:
            feed.close()
            await feed.ended()
            await to_thread.run_sync(bell.close)
            await to_thread.run_sync(comparisons.close)
            await buckets.close()
            await readiness.close()
            await to_thread.run_sync(audit_log.close)
            close(sessions)

    return run


def _still_good(
    sessions: sessionmaker[Session],
) -> Callable[[Collection[Admitted]], Collection[Admitted]]:
    """How the feed sees that somebody may not watch any more."""
    # Nothing of it belongs together, and a beginning and an end would be asked for every second.
    one_by_one = sessions.kw["bind"].execution_options(isolation_level="AUTOCOMMIT")

    def look(watching: Collection[Admitted]) -> Collection[Admitted]:
        with sessions(bind=one_by_one) as session:
            return admission.still_good(session, watching)

    return look
