"""Task files of a harness are programs, so only its own ones are read."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adaptlab_client.machine.benchmark_items import NotRendered, rendered

HOSTILE = """task: evil
dataset_path: json
dataset_kwargs: {{data_files: {data}}}
test_split: train
output_type: multiple_choice
doc_to_text: !function canary.flown
doc_to_target: 0
doc_to_choice: [a, b]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a task file that runs a program as soon as it is read."""
    data = tmp_path / "test.jsonl"
    data.write_text(json.dumps({"question": "a"}) + "\n")
    (tmp_path / "evil.yaml").write_text(HOSTILE.format(data=data))
    bird = tmp_path / "canary-flew"
    (tmp_path / "canary.py").write_text(
        f"from pathlib import Path\nPath({str(bird)!r}).touch()\ndef flown(doc): return 'a'\n"
    )
    return tmp_path


@pytest.mark.parametrize("name", ["{}/evil.yaml", "{}/evil", "{}", "evil"])
def test_a_task_file_of_ones_own_is_refused_and_not_run(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(NotRendered, match=r"has no task|!function"):
        rendered(name.format(folder), data=folder)
    assert not (folder / "canary-flew").exists()


HARNESS = """
import sys
from lm_eval.tasks import TaskManager
TaskManager(include_path=sys.argv[1], include_defaults=False).load_task_or_group(["evil"])
"""


def test_the_harness_itself_would_run_it(folder: Path) -> None:
    """In a process of its own, which ends with it."""
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    subprocess.run(
        [sys.executable, "-c", HARNESS, str(folder)],
        cwd=folder, env=offline, capture_output=True, check=False,
    )  # fmt: skip
    assert (folder / "canary-flew").exists()
