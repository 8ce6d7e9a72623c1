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
ROOT = Path(__file__).parents[2]
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


OFFENDERS = (
    ("db/adaptlab_db", "adaptlab_services", "Imports go one way"),
    ("api/adaptlab_api", "adaptlab_worker", "Imports go one way"),
    ("api/adaptlab_api", "torch", "Only the engine, the theory and the trainer"),
    ("core/adaptlab", "torch", "Only the engine, the theory and the trainer"),
    (SERVICES, "adaptlab.engine", "Only the trainer process"),
    ("worker/adaptlab_worker", "adaptlab_worker.trainer.trainer", "The trainer is started"),
    (CLIENT, "adaptlab_services", "The client knows only"),
    ("api/adaptlab_api", "adaptlab_client", "Only the stack, which acts as a user"),
    ("core/adaptlab", "sqlalchemy", "Core has no HTTP, SQL"),
    ("core/adaptlab", "adaptlab_answers", "Imports go one way"),
    ("db/adaptlab_db", "adaptlab_answers", "Imports go one way"),
    ("answers/adaptlab_answers", "adaptlab_services", "Imports go one way"),
    ("answers/adaptlab_answers", "fastapi", "Answers know only core"),
    (f"{SERVICES}/limits", "adaptlab_services.jobs", "wings of services"),
    ("core/adaptlab/plugins", "adaptlab.studies", "wings of core"),
    ("api/adaptlab_api/limits", "adaptlab_api.routes", "wings of the API"),
    (f"{CLIENT}/transport", "adaptlab_client.resources", "wings of the client"),
    (f"{CLIENT}/cli/printing", "adaptlab_client.cli.commands", "wings of the command"),
    (f"{PAGES}/rendering", "adaptlab_api.pages.jobs", "wings of the pages"),
)
"""Folders, what a module there must not import, and the contract that forbids it."""
WITH_WINGS = ("api/adaptlab_api", PAGES, "core/adaptlab", CLIENT, f"{CLIENT}/cli", SERVICES)


def dotted(place: str, module: str) -> str:
    """The full name of a module in a folder of the repository."""
    return ".".join([*place.split("/")[1:], module])


@pytest.fixture(scope="module")
def offences(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report on a copy of the packages with every offence at once.

    To read all imports takes two seconds; one offence does not hide another, since each is
    reported with the module that commits it.
    """
    copy = tmp_path_factory.mktemp("copy")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for number, (place, imported, _) in enumerate(OFFENDERS):
        (copy / place / f"offender_{number}.py").write_text(f"import {imported}\n")
    for number, place in enumerate(WITH_WINGS):
        (copy / place / f"stray_{number}.py").touch()
    run = lint_imports(copy, python_path=os.pathsep.join(str(copy / f) for f in FOLDERS))
    assert run.returncode == 1, run.stdout + run.stderr
    return run.stdout


def test_every_import_contract_is_kept(repository: Path) -> None:
    run = lint_imports(repository)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("number", range(len(OFFENDERS)), ids=lambda n: OFFENDERS[n][0])
def test_an_import_in_the_wrong_direction_is_found(offences: str, number: int) -> None:
    place, imported, contract = OFFENDERS[number]
    assert any(contract in line for line in offences.splitlines() if " BROKEN" in line)
    offender = dotted(place, f"offender_{number}")
    chain = rf"{re.escape(offender)} -> {re.escape(imported)}(\.\S+)? \(l\.1\)"
    sections = re.split(r"\n(?=[^\n]+\n-{3,}\n)", offences)
    under = [text for text in sections if contract in text.partition("\n---")[0]]
    assert any(re.search(chain, text) for text in under), offences


@pytest.mark.parametrize("number", range(len(WITH_WINGS)), ids=lambda n: WITH_WINGS[n])
def test_a_module_of_no_wing_is_found(offences: str, number: int) -> None:
    assert re.search(rf"\b{re.escape(dotted(WITH_WINGS[number], f'stray_{number}'))}\b", offences)


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
