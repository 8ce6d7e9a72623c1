"""The application: its middleware, in order, its routes and resources."""

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from importlib.metadata import version
from typing import Any

from anyio import to_thread
from fastapi import FastAPI
from sqlalchemy.orm import Session, sessionmaker
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from adaptlab_api import routes
from adaptlab_api.answers import problems
from adaptlab_api.answers.answer_headers import AnswerHeaders
from adaptlab_api.answers.feed import Feed
from adaptlab_api.answers.state import Resources
from adaptlab_api.doors.body_limit import BodyLimit, limits_of_bodies
from adaptlab_api.doors.gate import Gate
from adaptlab_api.doors.open_requests import OpenRequests
from adaptlab_api.doors.path_prefix import PathPrefix, prefix_in
from adaptlab_api.doors.request_rate import RequestRate, WrongTokens
from adaptlab_api.doors.request_record import RequestRecord
from adaptlab_api.doors.time_limit import TimeLimit
from adaptlab_api.limits.auditing import AuditWriter
from adaptlab_api.limits.buckets import Buckets
from adaptlab_api.limits.request_counts import Key, RequestCounts
from adaptlab_api.limits.thread_turns import Turns
from adaptlab_api.openapi import describe
from adaptlab_api.pages.rendering import problem_pages
from adaptlab_api.pages.rendering.chart_pictures import ChartPictures
from adaptlab_api.pages.rendering.problem_pages import ProblemPages
from adaptlab_api.pages.rendering.unchanged_pages import UnchangedPages
from adaptlab_api.pages.routes import page_renderer, page_routes, static_routes
from adaptlab_api.requests.routing import modules_of, routers_of
from adaptlab_db.session import close
from adaptlab_db.visibility import guarded
from adaptlab_services.comparisons.chart_drawer import ChartDrawer
from adaptlab_services.comparisons.comparison_runs import ComparisonRuns
from adaptlab_services.comparisons.plot_drawing import DRAWERS
from adaptlab_services.hub.fetcher import Fetcher
from adaptlab_services.leases.token_leases import sessions_of_workers
from adaptlab_services.lifecycle import events
from adaptlab_services.lifecycle.doorbell import Bell
from adaptlab_services.models.record_datasets import READERS
from adaptlab_services.people import admission
from adaptlab_services.people.admission import Admissions, Admitted
from adaptlab_services.server.operations import Operations
from adaptlab_services.server.readiness import Readiness
from adaptlab_services.server.stores import open_sessions
from adaptlab_services.settings import Settings
from adaptlab_services.studies.question_planner import QuestionPlanner
from adaptlab_services.trackers.tracker_sender import TrackerSender
from adaptlab_services.webhooks.courier import Courier

THREADS = 20
"""As many as database connections, so a request waits for a thread and not in one."""


ORDER = (
    *("jobs", "leases", "events", "results", "queries", "attention", "checkpoints", "base_models"),
    *("datasets", "uploads", "model_folders", "hub_fetches", "hub_token", "catalogue"),
    *("budgets", "studies", "comparisons", "bundles", "recommendations", "recipes", "people"),
    *("server", "metrics"),
)
"""The order of the modules of routes in the description, and of the search for a route.

The busiest come first. A module that is not listed follows these.
"""


class Application(FastAPI):
    """FastAPI with our own OpenAPI document."""

    def openapi(self) -> dict[str, Any]:
        """Return a new OpenAPI document; `get_description` keeps its text."""
        return describe(self)

    def build_middleware_stack(self) -> ASGIApp:
        """Return the stack within `RequestRecord` and `PathPrefix`.

        From outside of all others, these also see the answers to server errors.
        """
        settings: Settings = self.state.settings
        recorded = RequestRecord(super().build_middleware_stack(), logs=settings.access_log)
        return PathPrefix(recorded, prefix_in(settings.public_url), _first_parts())


def create_app(settings: Settings | None = None) -> FastAPI:
    """Return the application for `settings`, or those of the environment."""
    # The environment supplies the arguments.
    settings = settings or Settings()  # pyright: ignore[reportCallIssue]
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
        lifespan=_lifespan(settings),
        middleware=[
            Middleware(AnswerHeaders),
            Middleware(ProblemPages, renderer=renderer),
            Middleware(UnchangedPages),
            Middleware(TimeLimit, seconds=settings.answer_seconds),
            Middleware(
                BodyLimit,
                limit_of=limits_of_bodies(
                    settings.max_body_bytes, settings.max_upload_bytes, settings.max_dataset_bytes
                ),
            ),
            Middleware(WrongTokens, settings=settings),
            Middleware(Gate),
            Middleware(RequestRate, settings=settings),
            Middleware(OpenRequests, settings=settings),
            Middleware(ChartPictures),
        ],
    )
    app.state.settings = settings
    problems.install(app)
    problem_pages.install(app, renderer)
    app.router.routes.extend(_routes())
    return app


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """Return every route, created once per process.

    No route depends on settings or application. Reading the parameters of all routes takes a
    quarter of a second, which every application of a test process would spend again.
    """
    of_api = (router for module in modules_of(routes, ORDER) for router in routers_of(module))
    return (
        *(route for router in of_api for route in router.routes),
        *page_routes(),
        *static_routes(),
    )


def _keys() -> tuple[Key, ...]:
    """Return the method and template of every route."""
    return tuple(
        (method, route.path)
        for route in _routes()
        if isinstance(route, Route)
        for method in sorted(route.methods or ())
    )


def _first_parts() -> frozenset[str]:
    """Return the first parts of the paths of all routes."""
    return frozenset(route.path.split("/")[1] for route in _routes() if isinstance(route, Route))


def _lifespan(settings: Settings) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def run(app: FastAPI) -> AsyncGenerator[None]:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        sessions = open_sessions(settings)
        feed = Feed(events.Lookout(sessions), _still_good(sessions))
        buckets = Buckets(settings.broker_url)
        readiness = Readiness(settings)
        audit_log = AuditWriter(sessions)
        guarded_sessions, bell = guarded(sessions), Bell(settings.broker_url)
        comparisons = ComparisonRuns(guarded_sessions)
        drawer = ChartDrawer()
        threads = _threads(settings, sessions, bell)
        request_counts = RequestCounts(settings.data_dir / "request-counts", _keys())
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
            drawer=drawer,
            readings=Turns(READERS),
            comparisons=comparisons,
            operations=Operations(sessions),
            request_counts=request_counts,
        )
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            for thread in threads:
                await to_thread.run_sync(thread.close)
            feed.close()
            await feed.ended()
            for stopped in (bell, comparisons, drawer):
                await to_thread.run_sync(stopped.close)
            await buckets.close()
            await readiness.close()
            await to_thread.run_sync(audit_log.close)
            request_counts.close()
            close(sessions)

    return run


def _threads(
    settings: Settings, sessions: sessionmaker[Session], bell: Bell
) -> tuple[QuestionPlanner, Courier, Fetcher, TrackerSender]:
    """Return what works apart from requests, not started yet."""
    return (
        QuestionPlanner(sessions, bell.ring, settings.question_seconds, settings.max_study_jobs),
        Courier(sessions, settings, settings.sweep_seconds),
        Fetcher(sessions, settings, bell.ring),
        TrackerSender(sessions, settings, settings.sweep_seconds),
    )


def _still_good(
    sessions: sessionmaker[Session],
) -> Callable[[Collection[Admitted]], Collection[Admitted]]:
    """Return the function that returns the watchers who still have permission."""
    # Its statements are independent: a transaction would add two round trips every second.
    one_by_one = sessions.kw["bind"].execution_options(isolation_level="AUTOCOMMIT")

    def look(watching: Collection[Admitted]) -> Collection[Admitted]:
        with sessions(bind=one_by_one) as session:
            return admission.still_good(session, watching)

    return look
