"""`python -m adaptlab_client.reference` writes the reference pages.

Git ignores them. A server needs no files: it writes a page when somebody first reads it.
"""

from pathlib import Path

from adaptlab_client.reference.pages import written


def main() -> None:
    """Write the pages."""
    folder = _repository() / "docs" / "reference"
    for name, text in written().items():
        (folder / name).write_text(text, encoding="utf-8")


def _repository() -> Path:
    for folder in (Path.cwd(), *Path(__file__).resolve().parents):
        if (folder / "pyproject.toml").exists() and (folder / "client").is_dir():
            return folder
    raise SystemExit("No checkout here to write the pages to. Run this inside a checkout.")


if __name__ == "__main__":
    main()
