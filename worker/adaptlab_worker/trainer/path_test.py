"""A confined test of the paths that a trainer needs.

`python -m adaptlab_worker.trainer.path_test SCRATCH PATH …` exits with the first path that
cannot be reached. Paths are opened, because `access` ignores the kernel's rules for files.
"""

import os
import subprocess
import sys
from pathlib import Path

import adaptlab.specs.spec
import adaptlab_worker.trainer.protocol

NEEDED_TOO = (adaptlab.specs.spec, adaptlab_worker.trainer.protocol)


def main(scratch: str, *paths: str) -> None:
    """Enter the scratch folder, read every path, and start Python."""
    for path in (f"{scratch}/.", *paths):
        try:
            if path in paths:
                _read(Path(path))
            else:
                os.stat(path)  # noqa: PTH116 - a Path would leave the dot out
        except OSError:
            sys.exit(path)
    subprocess.run([sys.executable, "-c", ""], check=True)


def _read(path: Path) -> None:
    if path.is_dir():
        next(path.iterdir(), None)
    else:
        path.open("rb").close()


if __name__ == "__main__":
    main(*sys.argv[1:])
