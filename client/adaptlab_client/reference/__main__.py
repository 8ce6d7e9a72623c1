"""`python -m adaptlab_client.reference` writes the reference pages.

With `--check`, it writes nothing, and exits with 1 if a page is out of date.
"""

import sys
from pathlib import Path

from adaptlab_client.reference.pages import written


def main(arguments: list[str]) -> int:
    """Write or compare the pages, and return the exit code."""
    folder = _repository() / "docs" / "reference"
    stale: list[str] = []
    for name, text in written().items():
        path = folder / name
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    if stale:
        names = ", ".join(f"docs/reference/{name}" for name in stale)
        sys.stderr.write(f"Out of date: {names}. Run `make generate`.\n")
    return 1 if stale else 0


def _repository() -> Path:
    for folder in (Path.cwd(), *Path(__file__).resolve().parents):
        if (folder / "pyproject.toml").exists() and (folder / "client").is_dir():
            return folder
    raise SystemExit("There is no checkout here to write the pages to. Run this inside one.")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
