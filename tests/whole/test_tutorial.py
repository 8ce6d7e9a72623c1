"""The commands of the tutorial on studies, run on a smaller study."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from tests.whole.conftest import PATIENCE

from adaptlab_stack.stack import Stack

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs/tutorial/a-study.md").read_text()
STUDIES = sorted((ROOT / "examples/studies").glob("*.yaml"))


def commands() -> list[str]:
    return re.findall(r"```bash\n(.*?)```", TUTORIAL, re.DOTALL)


@pytest.fixture
def folder(stack: Stack, tmp_path: Path) -> Path:
    """A user's folder: `.venv`, examples and a running server."""
    return prepare(tmp_path, stack)


def prepare(folder: Path, stack: Stack) -> Path:
    (folder / ".adaptlab").symlink_to(stack.data_dir)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    (folder / "examples/studies").mkdir(parents=True)
    for study in STUDIES:
        (folder / "examples/studies" / study.name).write_text(study.read_text())
    return folder


def run(script: str, folder: Path) -> str:
    known = {k: v for k, v in os.environ.items() if not k.startswith("ADAPTLAB_")}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder, env=known, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def shrink(path: Path) -> None:
    """Few steps, items and methods; the same names, tasks and budgets."""
    spec = yaml.safe_load(path.read_text())
    base = spec["base_models"][0]
    base["training"] |= {"steps": 2}
    base["evaluation"]["samples"] = 50
    spec["training"] |= {"steps": 2, "validations": 1}
    spec |= {
        "methods": ["frozen", "full_finetuning", "prefix_tuning"],
        "evaluation": {"samples": 50},
    }
    spec["tuning"] = {"trials": 2, "validation_samples": 20}
    path.write_text(yaml.safe_dump(spec))


@pytest.mark.long("walks through commands and documents", but=1)
@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.stem)
def test_the_examples_can_be_planned(study: Path, folder: Path):
    plan = f".venv/bin/adaptlab studies create examples/studies/{study.name} --validate-only"
    printed = run(plan, folder)
    assert "left out" not in printed
    assert re.search(r"1 base models to create, \d+ passes, about \d", printed)


def test_the_tutorial_shows_the_study_as_it_is():
    shown = re.search(r"```yaml\n(.*?)```", TUTORIAL, re.DOTALL)
    assert shown is not None
    assert shown[1] == (ROOT / "examples/studies/mixture.yaml").read_text()


class Followed(NamedTuple):
    """The folder of the commands, and the output of each, in order."""

    folder: Path
    printed: list[str]


@pytest.fixture(scope="module")
def followed(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    folder = prepare(tmp_path_factory.mktemp("followed"), stack)
    shrink(folder / "examples/studies/mixture.yaml")
    return Followed(folder, [run(command, folder) for command in commands()])


@pytest.mark.long("walks through commands and documents")
def test_the_commands_in_their_order_plan_run_compare_and_extend_the_study(followed: Followed):
    assert len(followed.printed) == 7
    plan, result, failed, compared, extension, *_ = followed.printed
    assert "8 new jobs and 0 existing ones, 1 base models to create, 9 passes" in plan
    assert "9 succeeded" in result
    assert len(failed.strip().splitlines()) == 1
    assert "sort_then_add on mixture-1l" in compared
    assert "8 new jobs and 8 existing ones" in extension


@pytest.mark.long("walks through commands and documents")
def test_the_written_page_has_a_row_for_each_score_and_its_pictures(followed: Followed):
    folder = followed.folder
    rows = list(csv.DictReader((folder / "mixture.csv").read_text().splitlines()))
    assert len(rows) == 2 * 2 * 3
    page = (folder / "mixture/decision.md").read_text()
    lines = [line.replace("|", " ").split() for line in page.splitlines()]
    for row in rows:
        figures = {f"{int(row['parameters']):,}", f"{100 * float(row['score']):.1f}"}
        assert any(figures <= set(line) for line in lines), row
    pictures = list((folder / "mixture/plots").glob("*.svg"))
    assert len(pictures) >= 2 * (1 + 2)
    assert all(picture.read_text().startswith("<svg") for picture in pictures)


@pytest.mark.long("walks through commands and documents")
def test_the_bundle_is_valid_and_its_text_the_same_when_written_again(followed: Followed):
    folder = followed.folder
    assert "the bundle is valid" in followed.printed[-1]
    run(".venv/bin/adaptlab bundle check mixture.zip --render again", folder)
    page = (folder / "mixture/decision.md").read_text()
    assert (folder / "again/decision.md").read_text() == page
