"""Forms that share a resource with another project, and take it back."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec
from adaptlab_api.answers.problems import Refused, status_of
from adaptlab_api.limits.auditing import noted
from adaptlab_api.pages.rendering.forms import small_form_fields
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.requests.dependencies import SessionDep, SubmitterDep, valid
from adaptlab_api.requests.rules import needs
from adaptlab_services.errors import Absent, Forbidden, StateConflict
from adaptlab_services.models.dataset_sharing import NewShare

NOT_SHARED = "The sharing was not changed"
_NEW_SHARE = TypeAdapter(NewShare)

Fields = Mapping[str, Sequence[str]]
FieldsDep = Annotated[Fields, Depends(small_form_fields)]


@dataclass(frozen=True, slots=True)
class Shared:
    """A kind of resource that can be shared.

    Its page is `here` with its name; `kind` is its part in the names of operations, and `parameter`
    the name of the path's parameter.
    """

    here: str
    kind: str
    parameter: str
    share: Callable[[Session, str, NewShare], object]
    take_back: Callable[[Session, str, str], object]


def add_sharing(router: APIRouter, renderer: Renderer, shared: Shared) -> None:
    """Add the forms that share a resource of a kind and take it back."""

    def add(path: str, operation: str, change: Callable[[Session, str, Fields], object]) -> None:
        @router.post("/{" + shared.parameter + "}/" + path, name=operation)
        @needs("submitter")
        def changed(  # pyright: ignore[reportUnusedFunction] - the router keeps it
            name: Annotated[str, Path(alias=shared.parameter)],
            fields: FieldsDep,
            request: Request,
            session: SessionDep,
            principal: SubmitterDep,
        ) -> Response:
            shown: dict[str, object] = {"principal": principal, "here": shared.here}
            try:
                change(session, name, fields)
            except (Absent, StateConflict, Forbidden, InvalidSpec, Refused) as refusal:
                return renderer.fault(status_of(refusal), NOT_SHARED, str(refusal), shown)
            page = f"{shared.here}/{quote(name, safe='')}#sharing"
            return noted(session, request, RedirectResponse(page, 303))

    add(
        "share",
        f"share_{shared.kind}",
        lambda session, name, fields: shared.share(session, name, _new_share(fields)),
    )
    add(
        "take-back",
        f"take_{shared.kind}_back",
        lambda session, name, fields: shared.take_back(session, name, _project(fields)),
    )


def _project(fields: Fields) -> str:
    """Return the project that the form names."""
    return fields.get("project", ("",))[0].strip()


def _new_share(fields: Fields) -> NewShare:
    """Return the share that the form asks for.

    Raises `InvalidSpec` for a name that no project can have.
    """
    return valid(_NEW_SHARE, json.dumps({"project": _project(fields)}).encode())
