"""The drawing process: charts from stdin, SVGs to stdout, as JSON lines."""

import json
import sys

from adaptlab.charts import svg


def main() -> None:
    """Draw the charts from stdin until it ends."""
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(svg(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
