"""Figures for Prometheus, in its text format."""

from starlette.responses import Response

from adaptlab_api.requests.dependencies import ResourcesDep
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs

router = closed_router()


@router.get("/metrics")
@needs("metrics")
def get_metrics(opened: ResourcesDep) -> Response:
    """Get the server's figures, which are at most a few seconds old."""
    # Loaded by the first scrape: it takes 3 MB, of which a server that nobody scrapes needs none.
    from adaptlab_api.answers.exposition import exposed

    return exposed(opened.operations.figures(), opened.request_counts.counts())
