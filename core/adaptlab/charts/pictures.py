"""Charts as image files."""

from adaptlab.charts.frame import VEGA_LITE, Chart


def png(chart: Chart, scale: float = 2.0) -> bytes:
    """Return the chart as a PNG file with `scale` times the size in pixels."""
    import vl_convert  # large, because it contains a JavaScript engine

    return vl_convert.vegalite_to_png(
        chart, vl_version=VEGA_LITE, scale=scale, allowed_base_urls=[]
    )


def svg(chart: Chart) -> str:
    """Return the chart as an SVG document."""
    import vl_convert  # as above

    return vl_convert.vegalite_to_svg(chart, vl_version=VEGA_LITE, allowed_base_urls=[])
