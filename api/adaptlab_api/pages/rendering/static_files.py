"""Routes of the static files and the chart library."""

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

from adaptlab_api.pages.rendering.assets import Assets, charts_name, charts_script, plain
from adaptlab_api.requests.dependencies import ResourcesDep

FOR_EVER = "public, max-age=31536000, immutable"  # the address changes with the content
SAFE = {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"}


def static_router(assets: Assets) -> APIRouter:
    """Return the routes of assets and the chart library below `/static/`."""
    router = APIRouter()

    @router.get(f"/static/{charts_name()}", include_in_schema=False)
    def charts(request: Request, resources: ResourcesDep) -> Response:
        return _script(request, charts_script(resources.settings.data_dir / "cache"))

    @router.get("/static/{name}", include_in_schema=False)
    def asset(name: str, request: Request) -> Response:
        file = assets.by_name.get(name)
        if file is None:
            raise HTTPException(404)
        versioned = request.query_params.get("v") == file.digest[:12]
        keep = FOR_EVER if versioned else "no-cache"
        headers = {"Cache-Control": keep, "ETag": f'"{file.digest}"', **SAFE}
        return Response(file.content, media_type=file.media_type, headers=headers)

    return router


def _script(request: Request, compressed: bytes) -> Response:
    headers = {"Cache-Control": FOR_EVER, "Vary": "Accept-Encoding", **SAFE}
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        content = compressed
    else:
        content = plain(compressed)
    return Response(content, media_type="text/javascript; charset=utf-8", headers=headers)
