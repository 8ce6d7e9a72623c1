"""Charts as answers to the page's script."""

from collections.abc import Mapping

from fastapi.responses import JSONResponse, Response

from adaptlab.charts import Chart

NOTHING_DRAWN = 204


def drawn(chart: Chart | Mapping[str, Chart] | None) -> Response:
    """Return a chart, or charts by name, as JSON; no content without one."""
    if chart is None:
        return Response(status_code=NOTHING_DRAWN)
    return JSONResponse(chart, headers={"Cache-Control": "no-store"})
