"""Forms that share a resource with another project, and take it back."""

import json
from collections.abc import Callable, Mapping, Sequence

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec
from adaptlab_api.answers.problems import Refused, status_of
from adaptlab_api.limits.auditing import noted
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.requests.dependencies import valid
from adaptlab_services.errors import Conflict, Forbidden, NotFound
from adaptlab_services.models.dataset_sharing import NewShare

NOT_SHARED = "The sharing was not changed"
_NEW_SHARE = TypeAdapter(NewShare)

Fields = Mapping[str, Sequence[str]]


def project_in(fields: Fields) -> str:
    """Return the project that the form names."""
    return fields.get("project", ("",))[0].strip()


def new_share(fields: Fields) -> NewShare:
    """Return the share that the form asks for.

    Raises `InvalidSpec` for a name that no project can have.
    """
    return valid(_NEW_SHARE, json.dumps({"project": project_in(fields)}).encode())


def share_answer(
    renderer: Renderer,
    request: Request,
    session: Session,
    shown: dict[str, object],
    page: str,
    change: Callable[[], object],
) -> Response:
    """Change the sharing of a resource, and return to its page."""
    try:
        change()
    except (NotFound, Conflict, Forbidden, InvalidSpec, Refused) as refusal:
        return renderer.fault(status_of(refusal), NOT_SHARED, str(refusal), shown)
    return noted(session, request, RedirectResponse(f"{page}#sharing", 303))
