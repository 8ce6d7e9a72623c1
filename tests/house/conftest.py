"""The repository and a fresh interpreter, for tests about the house."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def fresh_python(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], str]:
    """Run code in an interpreter outside the repository; return its output.

    The environment has none of the settings, so that an import that needs one is found out.
    """
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("ADAPTLAB_")
    }

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error::SyntaxWarning", "-c", code],
            cwd=elsewhere,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
