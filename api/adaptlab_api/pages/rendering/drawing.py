"""Charts as answers: the page's script fetches them and hands them to the chart library."""

from collections.abc import Mapping

from fastapi.responses import JSONResponse, Response

from adaptlab.charts import Chart

NOTHING_DRAWN = 204


def drawn(chart: Chart | Mapping[str, Chart] | None) -> Response:
    """A chart, or charts by name, as JSON; no content where there is nothing to draw yet."""
    if chart is None:
        return Response(status_code=NOTHING_DRAWN)
    return JSONResponse(chart, headers={"Cache-Control": "no-store"})
