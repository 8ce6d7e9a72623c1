"""What a submitted form names on the hub is fetched before it is answered."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from fastapi import Request
from sqlalchemy.orm import Session

from adaptlab.errors import AdaptlabError
from adaptlab.values import Value
from adaptlab_api.limits.thread_turns import turn_of
from adaptlab_api.pages.submitting.answers import REFUSALS, in_project
from adaptlab_api.pages.submitting.draft import Draft
from adaptlab_api.requests.dependencies import units_of
from adaptlab_api.requests.plans import here
from adaptlab_api.requests.rules import access_of
from adaptlab_services.hub import plans
from adaptlab_services.models import task_files


async def missing_of_hub(
    request: Request, typed: Callable[[Session], Draft], spec_of: Callable[[Draft], Value]
) -> AdaptlabError | None:
    """Return why something that a form names on the hub is not here, if so.

    The request waits without a thread or unit of work. A form that is no spec names nothing.
    """
    units, rights = units_of(request), access_of(request)

    def named() -> tuple[Draft, Value | None]:
        with units() as session:
            draft = typed(session)
            try:
                return draft, spec_of(draft)
            except REFUSALS:
                return draft, None

    draft, spec = await turn_of(request).call(named)
    if spec is None:
        return None
    models, datasets = plans.sources_in(spec), task_files.datasets_of_hub_in(spec)

    @contextmanager
    def inside() -> Generator[Session]:
        with units() as session, in_project(session, rights, draft.project):
            yield session

    if not models and not datasets:
        return None
    try:
        return await here(request, models, datasets, inside)
    except REFUSALS as refusal:
        return refusal
