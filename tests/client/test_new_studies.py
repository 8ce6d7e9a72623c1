"""`adaptlab studies new`: from a file or a task to a study with its plan."""

import csv
import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.client.conftest import Address, Invoke
from tests.texts import reviews
from typer.testing import CliRunner, Result

from adaptlab_client import Client
from adaptlab_client.cli.main import application

LIMIT = 60.0
"""Seconds without a sign on the terminal before the test gives up."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a file of records."""
    with (tmp_path / "reviews.csv").open("w", newline="") as file:
        rows = csv.DictWriter(file, ["text", "label", "thing"])
        rows.writeheader()
        rows.writerows(reviews(200))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def offline(*arguments: str) -> Result:
    """Draft a study without a server."""
    words = ["studies", "new", *arguments, "--offline"]
    return CliRunner().invoke(application(), words, env={"ADAPTLAB_URL": "http://nowhere.invalid"})


def written(path: str = "reviews.yaml") -> Any:  # Any: YAML of many kinds
    return yaml.safe_load(Path(path).read_text())


def test_a_file_becomes_a_study_that_the_server_creates(
    invoke: Invoke, client: Client, folder: Path
):
    done = invoke("studies", "new", "reviews.csv", "--yes")
    assert done.exit_code == 0, done.output
    assert client.datasets.get("reviews").records == 200
    study = written()
    assert study["tasks"][0]["label"] == {"field": "label", "words": {"neg": " neg", "pos": " pos"}}
    assert study["base_models"][0]["task"]["answer"] == {"field": "text"}
    assert study["methods"] == ["frozen", "full_finetuning", "lora", "prefix_tuning", "soft_prompt"]
    assert "5 new jobs" in done.stderr
    assert "At 512 all methods train 512 parameters." in done.stderr
    assert "Next: adaptlab studies create reviews.yaml --wait" in done.stderr
    assert invoke("studies", "create", "reviews.yaml").exit_code == 0


def test_a_name_that_is_taken_on_the_server_gets_a_number(invoke: Invoke, folder: Path):
    assert invoke("studies", "new", "reviews.csv", "--yes").exit_code == 0
    assert invoke("studies", "create", "reviews.yaml").exit_code == 0
    done = invoke("studies", "new", "reviews.csv", "--yes", "--base", "reviews-base")
    assert done.exit_code == 0, done.output
    assert written("reviews-2.yaml")["name"] == "reviews-2"
    assert "0 base models to create" in done.stderr


def test_a_task_without_a_file_fits_the_base_model(invoke: Invoke, base: None, folder: Path):
    done = invoke("studies", "new", "--task", "sort_descending", "--budgets", "64,50%", "--yes")
    assert done.exit_code == 0, done.output
    study = written("sort-descending.yaml")
    assert study["base_models"] == ["tiny-sort"]
    assert study["tasks"] == [{"name": "sort_descending", "length": 3, "alphabet": 4}]
    assert study["budgets"] == [64, {"fraction_of_base": 0.5}]


def test_the_file_is_commented_and_never_overwritten(folder: Path):
    done = offline("reviews.csv", "--base", "mine", "--yes")
    assert done.exit_code == 0, done.output
    text = Path("reviews.yaml").read_text()
    assert text.startswith("# Drafted by `adaptlab studies new`.")
    assert "\n# Test items that are scored" in text
    assert "Then: adaptlab studies create reviews.yaml --validate-only" in done.stderr
    refused = offline("reviews.csv", "--base", "other", "--yes")
    assert (refused.exit_code, "already exists" in refused.stderr) == (2, True)
    assert Path("reviews.yaml").read_text() == text
    assert offline("reviews.csv", "--base", "other", "--yes", "--force").exit_code == 0
    assert written()["base_models"] == ["other"]


def test_without_a_terminal_the_missing_options_are_named(folder: Path):
    done = offline("reviews.csv", "--base", "mine", "--seeds", "3")
    assert done.exit_code == 2
    assert "Give --methods, --budgets, or --yes" in done.stderr
    whole = ("--methods", "lora", "--budgets", "1000", "--base", "mine", "--seeds", "3")
    assert offline("reviews.csv", *whole).exit_code == 0
    nothing = offline(*whole)
    assert (nothing.exit_code, "FILE" in nothing.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("reviews.csv", "--base", "nope"), "There is no base model 'nope'"),
        (("reviews.csv", "--methods", "lora,suffix_tuning"), "texts differ in length"),
        (("reviews.csv", "--methods", "lorra"), "There is no method 'lorra'. Take one of lora"),
        (("reviews.csv", "--methods", " , "), "Nothing is chosen"),
        (("reviews.csv", "--budgets", "many"), "'many' is not a budget"),
        (("reviews.csv", "--budgets", "0"), "'0' is not a budget"),
        (("reviews.csv", "--budgets", "101%"), "'101%' is not a budget"),
        (("reviews.csv", "--seeds", "65"), "Write one from 1 to 64"),
        (("reviews.csv", "--label", "stars"), "no field 'stars'. Its fields: text, label, thing"),
        (("few.csv",), "No record of 'few' is in the"),
        (("same.csv",), "Label or answer: there is no default."),
        (("long.csv",), "Import a model with"),
        (("--task", "sort_descendin"), "There is no task named 'sort_descendin'"),
        (("--task", "text_completion"), "is a task of a file"),
        (("reviews.csv", "--task", "copy"), "either a FILE or --task"),
    ],
)
def test_what_cannot_be_a_study_is_refused(
    shared_invoke: Invoke, folder: Path, arguments: tuple[str, ...], said: str
):
    (folder / "few.csv").write_text("text,label\nfine,pos\ndull,neg\n")
    (folder / "same.csv").write_text("text,label\nfine,pos\ndull,pos\n")
    long = "".join(f"{'fine ' * 200}{number},{'pn'[number % 2]}\n" for number in range(60))
    (folder / "long.csv").write_text(f"text,label\n{long}")
    done = shared_invoke("studies", "new", *arguments, "--yes")
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert [*folder.glob("*.yaml")] == []


def test_other_content_under_the_same_name_is_not_used(
    invoke: Invoke, client: Client, folder: Path
):
    client.datasets.upload_records("reviews", [{"text": "other", "label": "pos"}])
    done = invoke("studies", "new", "reviews.csv", "--yes")
    assert done.exit_code == 2
    assert "has a dataset 'reviews' with other content. Name this one by --dataset" in done.stderr
    again = invoke("studies", "new", "reviews.csv", "--yes", "--dataset", "mine", "--force")
    assert again.exit_code == 0, again.output
    assert client.datasets.get("mine").records == 200


def test_a_study_that_the_server_refuses_stays_for_editing(invoke: Invoke, folder: Path):
    done = invoke("studies", "new", "reviews.csv", "--methods", "lora", "--budgets", "5", "--yes")
    assert done.exit_code == 3
    assert "Change reviews.yaml" in done.stderr
    assert written()["budgets"] == [5]


def test_nothing_is_uploaded_against_the_users_will(invoke: Invoke, client: Client, folder: Path):
    done = invoke("studies", "new", "reviews.csv", "--yes", "--no-upload")
    assert done.exit_code == 0, done.output
    assert "Next: adaptlab datasets upload reviews reviews.csv" in done.stderr
    assert "reviews" not in [dataset.name for dataset in client.datasets.list()]


# On a terminal


def on_a_terminal(address: Address, words: Sequence[str], keys: Sequence[str]) -> str:
    """Run the command line on a terminal and type a line at each question."""
    screen, terminal = pty.openpty()
    environment = os.environ | address.environment | {"COLUMNS": "100"}
    call = [sys.executable, "-c", "from adaptlab_client.cli.main import run; run()", *words]
    with subprocess.Popen(
        call, env=environment, stdin=terminal, stdout=terminal, stderr=terminal
    ) as process:
        os.close(terminal)
        shown = b"".join(_typing(screen, iter(keys))).decode().replace("\r", "")
    os.close(screen)
    assert process.returncode == 0, shown
    return shown


def _typing(screen: int, keys: Iterator[str]) -> Iterator[bytes]:
    line = b""
    while select.select([screen], [], [], LIMIT)[0]:
        try:
            read = os.read(screen, 4096)
        except OSError:  # the other side has left
            return
        yield read
        line = (line + read).rpartition(b"\n")[2]
        if line.endswith((b"]: ", b"]:")):
            os.write(screen, next(keys).encode() + b"\n")
            line = b""


def test_enter_takes_every_default(address: Address, client: Client, folder: Path):
    shown = on_a_terminal(address, ["studies", "new", "reviews.csv"], [""] * 6)
    usual = ("Label or answer [label]", "Base model [new]", "Methods [frozen,", "Budgets [512]")
    for question in (*usual, "Seeds [5]", "Upload reviews.csv? [Y/n]"):
        assert question in shown
    assert "Next: adaptlab studies create reviews.yaml --wait" in shown
    assert client.datasets.get("reviews").records == 200


def test_an_invalid_answer_is_asked_again(address: Address, base: None, folder: Path):
    keys = ["", "tiny-sort", "lora,lorra", "lora,ia3", "x", "", "2"]
    shown = on_a_terminal(address, ["studies", "new", "--to", "mine.yaml"], keys)
    assert "There is no method 'lorra'." in shown
    assert "'x' is not a budget" in shown
    study = written("mine.yaml")
    assert study["tasks"][0]["name"] == "sort_descending"
    assert (study["methods"], study["seeds"]) == (["lora", "ia3"], 2)
