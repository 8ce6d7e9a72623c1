"""Charts as files."""

from adaptlab.charts.frame import VEGA_LITE, Chart


def png(chart: Chart, scale: float = 2.0) -> bytes:
    """The chart as a PNG file; `scale` 2 gives two pixels for one."""
    import vl_convert  # holds a JavaScript engine, which only a caller with a picture to draw needs

    return vl_convert.vegalite_to_png(
        chart, vl_version=VEGA_LITE, scale=scale, allowed_base_urls=[]
    )


def svg(chart: Chart) -> str:
    """The chart as an SVG document."""
    import vl_convert  # as above

    return vl_convert.vegalite_to_svg(chart, vl_version=VEGA_LITE, allowed_base_urls=[])
