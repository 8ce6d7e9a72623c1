"""The plots of a claim, by their names in a bundle."""

from collections.abc import Iterator
from itertools import islice

from adaptlab.bundle.contents import MOST_PLOTS, StudyClaim
from adaptlab.charts import Chart
from adaptlab.charts.table_charts import compared_methods, table_charts


def plots(claim: StudyClaim) -> Iterator[tuple[str, Chart]]:
    """Return the first `MOST_PLOTS` charts with their names.

    In `plots/0-2-ranks.svg`, the first number is the index of the table and the second the index of
    the cell, both from 0.
    """
    return islice(_plots(claim), MOST_PLOTS)


def _plots(claim: StudyClaim) -> Iterator[tuple[str, Chart]]:
    methods = compared_methods(claim.tables)
    for number, table in enumerate(claim.tables):
        for name, chart in table_charts(table, methods=methods):
            yield f"plots/{number}-{name}.svg", chart
