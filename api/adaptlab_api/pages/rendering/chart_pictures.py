"""Charts of pages as SVG, before the chart library has loaded.

Every route of a chart answers with its JSON. With `as=svg` in the address, this draws it; `part`
names one of several charts, and `width` is that of a chart which fills its place.
"""

import asyncio
import json
import re
from contextlib import suppress
from functools import partial
from typing import cast

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adaptlab.charts import Chart
from adaptlab_api.answers.state import resources_of
from adaptlab_api.pages.rendering.drawing import NOTHING_DRAWN
from adaptlab_api.pages.rendering.renderer import PAGE_HEADERS
from adaptlab_services.comparisons.chart_drawer import ChartDrawer
from adaptlab_services.comparisons.plot_drawing import DrawingFailed

_CHARTS = re.compile(r"/(?!v1/).*/(charts|curves)(/|$)")
WAIT_SECONDS = 10.0
"""For a turn to draw; the interactive chart comes anyway."""
ON_THE_PAGE = {"background": "transparent", "padding": 2}
NARROWEST, WIDEST = 200, 2000
# The picture may have a style of its own, which inside `<img>` reaches nothing else.
HEADERS = {
    "Cache-Control": "private, max-age=30",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": PAGE_HEADERS["X-Content-Type-Options"],
}


class ChartPictures:
    """Middleware that draws the answers of charts for which `as=svg` asks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._turn = asyncio.Semaphore()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        asked = _asked(scope)
        if asked is None:
            await self._app(scope, receive, send)
            return
        body, is_chart = bytearray(), False

        async def keeping(message: Message) -> None:
            nonlocal is_chart
            if message["type"] == "http.response.start":
                is_chart = _is_chart(message)
            if not is_chart:
                await send(message)
            elif message["type"] == "http.response.body":
                body.extend(message.get("body", b""))

        await self._app(scope, receive, keeping)
        if is_chart:
            drawer = resources_of(scope["app"]).drawer
            await (await self._picture(drawer, bytes(body), asked))(scope, receive, send)

    async def _picture(self, drawer: ChartDrawer, body: bytes, asked: QueryParams) -> Response:
        chart = _chosen(json.loads(body), asked)
        if chart is not None:
            text = json.dumps(chart).encode()
            with suppress(TimeoutError, DrawingFailed):
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._turn.acquire()
                try:
                    picture = await run_in_threadpool(partial(drawer.draw, chart, text))
                finally:
                    self._turn.release()
                return Response(picture, media_type="image/svg+xml", headers=HEADERS)
        return Response(status_code=NOTHING_DRAWN)


def _asked(scope: Scope) -> QueryParams | None:
    """Return the query of a request for a chart as SVG."""
    if scope["type"] != "http" or scope["method"] != "GET" or not _CHARTS.match(scope["path"]):
        return None
    query = QueryParams(scope["query_string"])
    return query if query.get("as") == "svg" else None


def _is_chart(start: Message) -> bool:
    kind = Headers(raw=start["headers"]).get("content-type")
    return start["status"] == 200 and kind == "application/json"


def _chosen(charts: dict[str, Chart], asked: QueryParams) -> Chart | None:
    """Return the chart that is asked for, as wide as its place."""
    part, width = asked.get("part"), asked.get("width", "")
    chart = charts.get(part) if part else cast("Chart", charts)
    if chart is None:
        return None
    config = cast("Chart", chart.get("config", {}))
    shown: Chart = {**chart, "config": {**config, **ON_THE_PAGE}}
    if width.isdecimal():
        shown["width"] = max(NARROWEST, min(WIDEST, int(width[:6])))
        shown["autosize"] = {"type": "fit-x", "contains": "padding"}
    return shown
