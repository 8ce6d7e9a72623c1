"""`/v1/studies/{id}/bundle`: a study's decision frozen as one file."""

import base64

from fastapi import APIRouter, Request
from starlette.responses import Response

from adaptlab_api.dependencies import UnitsDep
from adaptlab_api.describing import failures, succeeds
from adaptlab_api.problems import TOO_MANY, Refused
from adaptlab_api.routes.comparisons import Level, Margin
from adaptlab_api.routes.studies import Studied
from adaptlab_api.streaming import Pieces
from adaptlab_services import bundles
from adaptlab_services.comparisons import DEFAULT_LEVEL, DEFAULT_MARGIN, Strictness
from adaptlab_services.plot_drawing import TooManyDrawings

ZIP = "application/zip"
CACHE = "private, no-cache"


def bundles_router() -> APIRouter:
    """The route of bundles."""
    router = APIRouter(tags=["studies"])
    whole = succeeds(
        200,
        "The bundle.",
        ZIP,
        ETag="Of the decision and of what writes it.",
        Content_Digest="The SHA-256 of the file.",
    )
    router.add_api_route(
        "/studies/{study}/bundle",
        get_study_bundle,
        response_class=Response,
        responses=whole | succeeds(304, "The bundle has not changed.") | failures(404, 409),
    )
    return router


def get_study_bundle(
    study: Studied,
    units: UnitsDep,
    request: Request,
    level: Level = DEFAULT_LEVEL,
    margin: Margin = DEFAULT_MARGIN,
) -> Response:
    """Get the decision of a study that has ended: claim, evidence, specs, tables, plots, text.

    While the study runs there is none; of one with jobs that failed or were cancelled it is
    marked as partial.
    """
    with units() as session:
        decision = bundles.frozen(session, study, Strictness(level=level, margin=margin))
    fixed = {"ETag": f'"{decision.tag}"', "Cache-Control": CACHE}
    known = request.headers.get("if-none-match", "").replace("W/", "").split(", ")
    if fixed["ETag"] in known:
        return Response(status_code=304, headers=fixed)
    try:
        bundle = bundles.written(units, decision)
    except TooManyDrawings as error:
        raise Refused(TOO_MANY, str(error)) from error
    digest = base64.b64encode(bytes.fromhex(bundle.sha256)).decode()
    fixed |= {
        "Content-Digest": f"sha-256=:{digest}:",
        "Content-Disposition": f'attachment; filename="{decision.study.name}.zip"',
        "Content-Length": str(bundle.size),
        "X-Content-Type-Options": "nosniff",
    }
    return Pieces(bundles.pieces(bundle), 200, fixed, ZIP)
