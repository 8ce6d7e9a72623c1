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
from tempfile import TemporaryDirectory

import pytest

from adaptlab_stack.stack import Stack

pytestmark = pytest.mark.long("walks through commands and documents")

pytest.importorskip("ipykernel", reason="ipykernel is not installed; `make setup` does")
pytest.importorskip("nbclient", reason="nbclient is not installed; `make setup` does")
EXAMPLES = Path(__file__).parents[2] / "examples"
QUESTION, OWN_TEXTS = EXAMPLES / "which_method.ipynb", EXAMPLES / "my_texts.ipynb"


def with_steps(text: str, steps: int, *usual: int) -> str:
    """The notebook's text, with other numbers of steps than the usual ones."""
    numbers = "|".join(map(str, usual))
    shrunk, places = re.subn(rf'(\\"steps\\": )(?:{numbers})\b', rf"\g<1>{steps}", text)
    assert places == 2
    return shrunk


EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
from traitlets.config import Config

notebook = nbformat.read(sys.argv[1], as_version=4)
# Over TCP, the kernel's ports are chosen before it binds them, and another process can be faster.
config = Config({"KernelManager": {"transport": "ipc"}})
NotebookClient(notebook, timeout=1000, config=config).execute()
nbformat.write(notebook, sys.argv[1])
"""


def executed(stack: Stack, folder: Path, text: str) -> dict[str, str]:
    """The outputs of a notebook's cells as JSON, by the cells' ids."""
    ran = folder / "ran.ipynb"
    ran.write_text(text)
    own = {name: str(folder / name) for name in ("JUPYTER_DATA_DIR", "IPYTHONDIR")}
    known = {"ADAPTLAB_URL": stack.url, "ADAPTLAB_TOKEN": stack.token}
    # In a folder of its own, because a socket's path has at most 107 characters.
    with TemporaryDirectory(prefix="kernel") as sockets:
        own |= {"JUPYTER_RUNTIME_DIR": sockets, "JUPYTER_CONFIG_DIR": str(folder)}
        done = subprocess.run(
            [sys.executable, "-c", EXECUTE, str(ran)],
            cwd=folder, env={**os.environ, **own, **known}, capture_output=True, text=True,
            check=False, timeout=1050,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    cells = json.loads(ran.read_text())["cells"]
    return {cell["id"]: json.dumps(cell["outputs"]) for cell in cells if "outputs" in cell}


@pytest.mark.parametrize("notebook", [QUESTION, OWN_TEXTS], ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_what_it_printed(notebook: Path) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells) > 10
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in cells)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_notebook_answers_the_question(stack: Stack, tmp_path: Path) -> None:
    said = executed(stack, tmp_path, with_steps(QUESTION.read_text(), 20, 300))
    assert "<StudyRun which-method: succeeded>" in said["run"]
    for name in ("curve", "differences", "maps", "losses"):
        assert "image/svg+xml" in said[name], name
    for name in ("scores", "heads"):
        assert "<table" in said[name], name
    assert said["verdicts"].count('"- ') >= 11
    assert "cannot be decided here, because no method learns the task" in said["diagnosis"]
    assert "(2, 1, 1, " in said["array"]
    assert "valid: True" in said["freeze"]
    assert (tmp_path / "which-method.zip").is_file()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_notebook_goes_from_a_file_to_words_under_attention(
    stack: Stack, tmp_path: Path
) -> None:
    said = executed(stack, tmp_path, with_steps(OWN_TEXTS.read_text(), 20, 200, 300))
    assert "400 records, 0 copies" in said["inspect"]
    assert "'name': 'text_classification'" in said["inspect"]
    assert "<StudyRun my-texts: succeeded>" in said["run"]
    assert "text_classification of my-reviews" in said["scores"]
    for method in ("lora", "prefix_tuning", "adapter"):
        assert method in said["scores"]
    assert "Answer:': expected '" in said["answers"]
    assert "image/svg+xml" in said["attention"]
    assert "layer 0, head 0, sample 0" in said["attention"]
