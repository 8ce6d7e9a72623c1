"""`/v1/studies/{id}/bundle`: a study's decision as one file."""

import base64

from fastapi import Request
from starlette.responses import Response

from adaptlab_api.answers.problems import TOO_MANY, problem
from adaptlab_api.answers.streaming import Pieces
from adaptlab_api.limits.thread_turns import Turn, turn_of
from adaptlab_api.requests.dependencies import ResourcesDep, UnitsDep
from adaptlab_api.requests.describing import failures, succeeds
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.comparisons import Level, Margin
from adaptlab_api.routes.studies import Studied
from adaptlab_services.comparisons import bundles
from adaptlab_services.comparisons.bundles import FrozenDecision, WrittenBundle
from adaptlab_services.comparisons.comparison_inputs import (
    DEFAULT_LEVEL,
    DEFAULT_MARGIN,
    Strictness,
)

ZIP = "application/zip"
CACHE = "private, no-cache"
PATIENCE_SECONDS = 60.0
RETRY_SECONDS = 5
OTHERS = "The server is writing other bundles; try again in a few seconds."


_BUNDLE = succeeds(
    200,
    "The bundle.",
    ZIP,
    ETag="Identifies the decision and the writer's version.",
    Content_Digest="The SHA-256 of the file.",
)

router = api_router(tag="studies")


@router.get(
    "/studies/{study}/bundle",
    response_class=Response,
    responses=_BUNDLE | succeeds(304, "The bundle has not changed.") | failures(404, 409),
)
@needs("reader")
async def get_study_bundle(
    study: Studied,
    units: UnitsDep,
    request: Request,
    opened: ResourcesDep,
    level: Level = DEFAULT_LEVEL,
    margin: Margin = DEFAULT_MARGIN,
) -> Response:
    """Get the bundle of a study that has ended: claim, evidence, specs, tables, plots, text.

    A study that has not ended has no bundle. If jobs failed or were cancelled, the bundle is
    marked as partial.
    """
    turn = turn_of(request)
    strictness = Strictness(level=level, margin=margin)
    decision = await turn.call(bundles.frozen, units, opened.comparisons, study, strictness)
    tags = request.headers.get("if-none-match", "").replace("W/", "").split(", ")
    if f'"{decision.tag}"' in tags:
        return Response(status_code=304, headers=_fixed(decision))
    # The wait is here and not in one of the few threads, which other requests need.
    drawing = Turn(opened.drawings)
    if not await drawing.take(PATIENCE_SECONDS):
        return problem(TOO_MANY, OTHERS, headers={"Retry-After": str(RETRY_SECONDS)})
    try:
        bundle = await turn.call(bundles.written, units, decision)
    finally:
        drawing.give_back()
    return Pieces(bundles.pieces(bundle), 200, _headers(decision, bundle), ZIP)


def _fixed(decision: FrozenDecision) -> dict[str, str]:
    return {"ETag": f'"{decision.tag}"', "Cache-Control": CACHE}


def _headers(decision: FrozenDecision, bundle: WrittenBundle) -> dict[str, str]:
    digest = base64.b64encode(bytes.fromhex(bundle.sha256)).decode()
    return _fixed(decision) | {
        "Content-Digest": f"sha-256=:{digest}:",
        "Content-Disposition": f'attachment; filename="{decision.study.name}.zip"',
        "Content-Length": str(bundle.size),
        "X-Content-Type-Options": "nosniff",
    }
