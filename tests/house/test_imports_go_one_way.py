"""House rule 1: imports go one way, and linters find offenders."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CLIENT = "client/adaptlab_client"
SERVICES = "services/adaptlab_services"
PAGES = "api/adaptlab_api/pages"
FOLDERS = ("answers", "api", "client", "core", "db", "services", "stack", "worker")


def lint_imports(folder: Path, *, python_path: str = "") -> subprocess.CompletedProcess[str]:
    """Run every import contract of the `pyproject.toml` in `folder`."""
    program = "import sys; from importlinter.cli import lint_imports_command as run; run()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache", "--no-logo"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        check=False,
    )


def ruff(repository: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Lint one piece of code as if it stood in a file at the root."""
    return subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--stdin-filename", "example.py", "-"],
        cwd=repository,
        input=code,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy_of_the_house(repository: Path, tmp_path: Path) -> Path:
    """The packages and their contracts, copied to where they can be spoiled."""
    for folder in FOLDERS:
        shutil.copytree(
            repository / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(repository / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_import_contract_is_kept(repository: Path) -> None:
    run = lint_imports(repository)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    ("module", "statement", "contract"),
    [
        ("db/adaptlab_db", "import adaptlab_services", "Imports go one way"),
        ("api/adaptlab_api", "import adaptlab_worker", "Imports go one way"),
        ("api/adaptlab_api", "import torch", "Only the engine, the theory and the trainer"),
        ("core/adaptlab", "import torch", "Only the engine, the theory and the trainer"),
        (SERVICES, "import adaptlab.engine", "Only the trainer process"),
        ("worker/adaptlab_worker", "import adaptlab_worker.trainer", "The trainer is started"),
        (CLIENT, "import adaptlab_services", "The client knows only"),
        ("api/adaptlab_api", "import adaptlab_client", "Only the stack, which acts as a user"),
        ("core/adaptlab", "import sqlalchemy", "Core has no HTTP, SQL"),
        ("core/adaptlab", "import adaptlab_answers", "Imports go one way"),
        ("db/adaptlab_db", "import adaptlab_answers", "Imports go one way"),
        ("answers/adaptlab_answers", "import adaptlab_services", "Imports go one way"),
        ("answers/adaptlab_answers", "import fastapi", "Answers know only core"),
        (f"{SERVICES}/limits", "import adaptlab_services.jobs", "wings of services"),
        ("core/adaptlab/plugins", "import adaptlab.studies", "wings of core"),
        ("api/adaptlab_api/limits", "import adaptlab_api.routes", "wings of the API"),
        (f"{CLIENT}/transport", "import adaptlab_client.resources", "wings of the client"),
        (f"{CLIENT}/cli/printing", "import adaptlab_client.cli.commands", "wings of the command"),
        (f"{PAGES}/rendering", "import adaptlab_api.pages.jobs", "wings of the pages"),
    ],
)
def test_an_import_in_the_wrong_direction_is_found(
    copy_of_the_house: Path, module: str, statement: str, contract: str
) -> None:
    (copy_of_the_house / module / "offender.py").write_text(f"{statement}\n")
    python_path = os.pathsep.join(str(copy_of_the_house / folder) for folder in FOLDERS)
    run = lint_imports(copy_of_the_house, python_path=python_path)
    assert run.returncode == 1, run.stdout + run.stderr
    broken = [line for line in run.stdout.splitlines() if " BROKEN" in line]
    assert any(contract in line for line in broken), run.stdout


@pytest.mark.parametrize(
    "package", ["api/adaptlab_api", PAGES, "core/adaptlab", CLIENT, f"{CLIENT}/cli", SERVICES]
)
def test_a_module_of_no_wing_is_found(copy_of_the_house: Path, package: str) -> None:
    (copy_of_the_house / package / "stray.py").touch()
    python_path = os.pathsep.join(str(copy_of_the_house / folder) for folder in FOLDERS)
    run = lint_imports(copy_of_the_house, python_path=python_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "stray" in run.stdout, run.stdout


@pytest.mark.parametrize("folder", FOLDERS)
def test_importing_a_top_level_folder_fails_lint(repository: Path, folder: str) -> None:
    run = ruff(repository, f"import {folder}\n\n{folder}.run()\n")
    assert run.returncode == 1
    assert "TID251" in run.stdout


def test_importing_the_package_inside_it_passes_that_rule(repository: Path) -> None:
    run = ruff(repository, "import adaptlab_api\n\nadaptlab_api.run()\n")
    assert "TID251" not in run.stdout


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_top_level_folder_is_no_package_and_holds_one(repository: Path, folder: str) -> None:
    assert not (repository / folder / "__init__.py").exists()
    packages = [path.parent.name for path in (repository / folder).glob("*/__init__.py")]
    assert packages == ["adaptlab" if folder == "core" else f"adaptlab_{folder}"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_package_says_what_lives_there(repository: Path, folder: str) -> None:
    (opening,) = (repository / folder).glob("*/__init__.py")
    assert opening.read_text().startswith('"""')


def test_tests_share_by_modules_of_their_own(repository: Path) -> None:
    of_another = re.compile(r"^\s*(?:from|import)\s+tests\.(?:\w+\.)*test_\w+", re.MULTILINE)
    sources = [*(repository / "tests").rglob("*.py")]
    assert len(sources) > 100
    assert [str(one) for one in sources if of_another.search(one.read_text())] == []
