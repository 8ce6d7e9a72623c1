"""The notebook of the examples, run by Jupyter on a real stack.

Every cell is run as it is, but for the steps of training: what is shown does not depend on what was
learned.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adaptlab_stack.stack import Stack

pytest.importorskip("ipykernel", reason="ipykernel is not installed; `make setup` does")
pytest.importorskip("nbclient", reason="nbclient is not installed; `make setup` does")
NOTEBOOK = Path(__file__).parents[2] / "examples/which_method.ipynb"


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def with_steps(text: str, steps: int) -> str:
    """The notebook's text, with other numbers of steps."""
    shrunk, places = re.subn(r'(\\"steps\\": )300\b', rf"\g<1>{steps}", text)
    assert places == 2
    return shrunk


def test_the_notebook_is_stored_without_what_it_printed() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells) > 10
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in cells)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_notebook_answers_the_question(stack: Stack, tmp_path: Path) -> None:
    ran = tmp_path / "ran.ipynb"
    ran.write_text(with_steps(NOTEBOOK.read_text(), 20))
    own = {name: str(tmp_path / name) for name in ("JUPYTER_DATA_DIR", "IPYTHONDIR")}
    own |= {"JUPYTER_RUNTIME_DIR": str(tmp_path / "run"), "JUPYTER_CONFIG_DIR": str(tmp_path)}
    known = {"ADAPTLAB_URL": stack.url, "ADAPTLAB_TOKEN": stack.token}
    execute = str(Path(sys.executable).with_name("jupyter-execute"))
    done = subprocess.run(
        [execute, "--inplace", "--timeout=1000", str(ran)],
        cwd=tmp_path, env={**os.environ, **own, **known}, capture_output=True, text=True,
        check=False, timeout=1050,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    cells = {cell["id"]: cell for cell in json.loads(ran.read_text())["cells"]}
    said = {name: json.dumps(cell["outputs"]) for name, cell in cells.items() if "outputs" in cell}
    assert "<StudyRun which-method: succeeded>" in said["run"]
    for name in ("curve", "differences", "maps", "losses"):
        assert "image/svg+xml" in said[name], name
    for name in ("scores", "heads"):
        assert "<table" in said[name], name
    assert said["verdicts"].count('"- ') >= 11
    assert "prefix_tuning at 256" in said["diagnosis"]
    assert "(2, 1, 1, " in said["array"]
    assert "valid: True" in said["freeze"]
    assert (tmp_path / "which-method.zip").is_file()
