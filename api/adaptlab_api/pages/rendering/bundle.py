"""A program that writes the chart library as one script for browsers.

Run as `python -m adaptlab_api.pages.rendering.bundle FILE`. The library is part of vl_convert,
whose JavaScript engine takes 160 MB; the server itself never loads it.
"""

import gzip
import os
import sys
from pathlib import Path

from adaptlab.charts import VEGA_LITE

SNIPPET = "window.adaptlabCharts = { vegaEmbed, vega };"


def write(target: Path) -> None:
    """Write the compressed script to `target` atomically."""
    import vl_convert  # only here: see above

    script = vl_convert.javascript_bundle(SNIPPET, vl_version=VEGA_LITE)
    part = target.with_name(f"{target.name}.{os.getpid()}")
    part.write_bytes(gzip.compress(script.encode(), mtime=0))
    part.replace(target)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
