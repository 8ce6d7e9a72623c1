"""A server out of a built wheel alone, in an environment that was empty."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import httpx
import pytest
from tests.whole.conftest import PATIENCE, a_folder

from adaptlab_client import Client
from adaptlab_stack.stack import Stack

pytestmark = pytest.mark.long("walks through commands and documents")

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
PRETRAIN = {
    "kind": "pretrain",
    "name": "small",
    "family": {"name": "minigpt", "width": 16, "heads": 2},
    "task": {"name": "sort_ascending", "length": 4, "alphabet": 5},
    "training": {"steps": 20, "batch_size": 16},
    "evaluation": {"samples": 50},
}


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd="/", env=env, capture_output=True, text=True, check=False,
        timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, as `make wheel` builds it."""
    folder = tmp_path_factory.mktemp("dist")
    run(UV, "build", "--quiet", "--offline", "--wheel", "-o", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the wheel and what it names.

    It is filled from the cache of `make setup`.
    """
    folder = tmp_path_factory.mktemp("empty") / "environment"
    run(UV, "venv", "--quiet", "--python", sys.executable, folder)
    links = os.environ.get("PIP_FIND_LINKS", "").replace(" ", ",")
    run(
        *(UV, "pip", "install", "--quiet", "--offline", "--python", folder / "bin" / "python"),
        *("-c", ROOT / "constraints.txt", f"adaptlab[stack,worker] @ {wheel.as_uri()}"),
        env={**os.environ, **({"UV_FIND_LINKS": links} if links else {})},
    )
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def installed(python: Path) -> Iterator[Stack]:
    """A stack of the installed wheel, which sees nothing of this tree."""
    with a_folder("wheel") as folder:
        alone = {"PYTHONSAFEPATH": "1", "PYTHONPATH": None, "ADAPTLAB_COMPILE": None}
        command = (str(python), "-m", "adaptlab_stack", "up")
        with Stack.start(folder / "data", environment=alone, command=command) as stack:
            yield stack


def test_every_file_of_the_packages_and_every_page_of_docs_is_inside(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    tracked = run("git", "-C", ROOT, "ls-files", "docs", *packages).split()
    moved = {
        f"adaptlab_api/documents/{name.removeprefix('docs/')}"
        if name.startswith("docs/")
        else name.partition("/")[2]
        for name in tracked
    }
    with ZipFile(wheel) as contents:
        assert sorted(moved - {*contents.namelist()}) == []


def test_a_job_succeeds_with_the_kernels_in_c(installed: Stack) -> None:
    with Client(installed.url, installed.token) as client:
        job = client.jobs.wait(client.jobs.submit(PRETRAIN).id, timeout=PATIENCE)
        assert job.succeeded, job.error
        (attempt,) = client.jobs.attempts(job.id)
    assert attempt.environment is not None
    assert attempt.environment["compiled"] is True


def test_pages_files_and_documents_are_served(installed: Stack, python: Path) -> None:
    about = run(python, "-c", "import adaptlab_api; print(adaptlab_api.__file__)")
    assert about.startswith(str(python.parents[1]))
    headers = {"Authorization": f"Bearer {installed.token}", "Accept": "text/html"}
    with httpx.Client(base_url=installed.url, headers=headers) as browser:
        page = browser.get("/").text
        linked = re.findall(r'(?:href|src)="(/static/[^"]+|/documents\b[^"]*)"', page)
        more = (
            "/documents/README.md",
            "/documents/reference/commands.md",
            "/recipes",
            "/methods/lora",
        )
        wrong = [path for path in (*linked, *more) if browser.get(path).status_code != 200]
    assert (len(linked) > 2, wrong) == (True, [])
