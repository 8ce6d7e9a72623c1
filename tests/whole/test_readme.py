"""What the README tells a stranger to type works as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.whole.conftest import PATIENCE

from adaptlab_client import Client
from adaptlab_stack.demo_study import SPEC
from adaptlab_stack.stack import Stack

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
(OF_DEMO,) = SPEC["base_models"]
DEMO_BASE = {
    **OF_DEMO,
    "training": {"steps": 3},
    "seeds": 1,
    "evaluation": {**OF_DEMO["evaluation"], "samples": 50},
}
"""The base model that the demo leaves, trained for a moment only."""


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def folder(stack: Stack, client: Client, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder after the demo, with `.adaptlab` and `.venv`."""
    job = client.jobs.wait(client.jobs.submit(DEMO_BASE).id, timeout=PATIENCE)
    assert job.succeeded, job.error
    folder = tmp_path_factory.mktemp("after the demo")
    (folder / ".adaptlab").symlink_to(stack.data_dir)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    return folder


def run(arguments: list[str], folder: Path) -> str:
    known = {k: v for k, v in os.environ.items() if not k.startswith("ADAPTLAB_")}
    done = subprocess.run(
        arguments, cwd=folder, env=known, capture_output=True, text=True, check=False,
        timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_example(folder: Path):
    printed = run([sys.executable, "-c", block("python")], folder).splitlines()
    names = [
        f"0 sort_{order} {model}"
        for order in ("ascending", "descending")
        for model in ("adapted", "base alone")
    ]
    assert [line.rsplit(" ", 1)[0] for line in printed[:4]] == names
    assert printed[4] == "[0.0]"


def test_the_curl_example(folder: Path, stack: Stack):
    # The demo's server has the default port; this one has what was free.
    script = block("bash").replace("http://127.0.0.1:8420", stack.url)
    printed = run(["bash", "-euo", "pipefail", "-c", script], folder)
    assert '"requested":384' in printed
    assert "event: succeeded" in printed
    assert '"split":"test"' in printed


def test_the_commands_that_are_named_exist(folder: Path):
    listed = run([str(folder / ".venv/bin/adaptlab"), "--help"], folder)
    named = "up down demo jobs studies compare budgets attention worker migrate"
    for name in named.split():
        assert re.search(rf"^  {name}\b", listed, re.MULTILINE), name
