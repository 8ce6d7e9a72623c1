"""The tools' settings agree with each other and with the folders."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TARGETS = (
    *("setup", "helm", "demo", "test", "test-all", "kernels", "check", "generate", "sbom", "bench"),
    *("wheel", "pictures"),
)
WITH_TORCH = ("core/adaptlab/engine/", "core/adaptlab/running/", "core/adaptlab/theory/")


@pytest.fixture(scope="module")
def pyproject(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text())


def test_make_help_lists_every_target(repository: Path) -> None:
    run = subprocess.run(
        ["make", "help"], cwd=repository, capture_output=True, text=True, check=True
    )
    listed = [line.split()[1] for line in run.stdout.splitlines()]
    assert set(TARGETS) <= set(listed)


def test_make_demo_hands_on_what_was_asked_for(repository: Path) -> None:
    command = ["make", "--dry-run", "demo", "EXIT=1", "DATA_DIR=a b", "PORT=8123", "TASK=text"]
    run = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    told = re.sub(r"[\\\s]+", " ", run.stdout)
    assert '.venv/bin/adaptlab demo --exit --data-dir "a b" --port 8123 --task text' in told


def test_ci_runs_exactly_the_suite_that_everybody_runs(repository: Path) -> None:
    script = (repository / ".ci" / "run").read_text()
    assert "set -euo pipefail" in script
    commands = [line for line in script.splitlines() if line.startswith("make ")]
    assert [line.removesuffix(" < /dev/null").split()[1:] for line in commands] == [
        ["helm"],
        ["test", "test-all"],
        ["check"],
    ]


def test_all_tests_are_the_short_the_long_and_the_kernels(repository: Path) -> None:
    command = ["make", "--dry-run", "test", "test-all"]
    run = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    parts = re.findall(r"pytest -n 4 .*--part (\w+)", run.stdout)
    assert (parts, "ATEN_CPU_CAPABILITY" in run.stdout) == (["short", "long"], True)


def test_the_tests_under_other_kernels_run_where_each_is_named(repository: Path) -> None:
    command = ["make", "--dry-run", "kernels"]
    run = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    assert (
        "ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE .venv/bin/python -m pytest" in run.stdout
    )
    left_out = re.findall(r"--ignore=(\S+)", run.stdout)
    assert left_out
    assert [name for name in left_out if not (repository / name).is_file()] == []


def test_every_requirement_has_a_pin_that_satisfies_it(
    repository: Path, pyproject: dict[str, Any]
) -> None:
    pins: dict[str, list[str]] = {}
    for line in (repository / "constraints.txt").read_text().splitlines():
        pin = Requirement(line)
        (specifier,) = pin.specifier
        assert specifier.operator == "==", line
        pins.setdefault(canonicalize_name(pin.name), []).append(specifier.version)
    project = pyproject["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    for requirement in (Requirement(text) for group in groups for text in group):
        if requirement.name != "adaptlab":
            versions = pins[canonicalize_name(requirement.name)]
            assert all(version in requirement.specifier for version in versions), requirement


def test_pyright_is_strict_on_everything_without_torch(
    repository: Path, pyproject: dict[str, Any]
) -> None:
    strict = [
        match for glob in pyproject["tool"]["pyright"]["strict"] for match in repository.glob(glob)
    ]
    packages = pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    modules = [path for package in packages for path in (repository / package).rglob("*.py")]
    loose = [
        str(module.relative_to(repository))
        for module in modules
        if not any(module == place or place in module.parents for place in strict)
    ]
    assert [path for path in loose if not path.startswith(WITH_TORCH)] == []


def test_no_module_has_a_name_that_says_nothing(repository: Path) -> None:
    empty = {"common", "helper", "helpers", "manager", "misc", "util", "utils"}
    folders = (
        *("answers", "api", "bench", "client", "core", "db", "services", "stack", "tests"),
        "worker",
    )
    named = [
        str(path.relative_to(repository))
        for folder in folders
        for path in (repository / folder).rglob("*")
        if path.stem in empty
    ]
    assert named == []


def test_a_method_a_task_and_a_family_are_two_files_of_one_name(repository: Path) -> None:
    core = repository / "core" / "adaptlab"
    for kind in ("methods", "tasks", "families"):
        declared = {path.name for path in (core / kind).glob("[a-z]*.py")}
        done = {path.name for path in (core / "engine" / kind).glob("[a-z]*.py")}
        assert declared
        if kind == "tasks":  # their items are records, which the engine reads in one way
            declared -= {f"{name}.py" for name in ("benchmark", "chat_completion", "neutral_text")}
            declared -= {"text_classification.py", "text_completion.py"}
        assert declared == done, kind
