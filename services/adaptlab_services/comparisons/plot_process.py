"""The process that draws: a chart on every line of stdin, its SVG as JSON on a line of stdout."""

import json
import sys

from adaptlab.charts import svg


def main() -> None:
    """Draw until there is no more to draw."""
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(svg(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
