"""The reference pages say what the code says, and their examples run."""

import re
from pathlib import Path

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Address
from tests.client.finished import a_finished_job
from tests.making import a_base_model

import adaptlab_client
from adaptlab_client import Client
from adaptlab_client.cli.examples import EXAMPLES
from adaptlab_client.reference.__main__ import main
from adaptlab_client.reference.pages import written

ROOT = Path(__file__).parents[2]


def test_the_pages_in_the_repository_are_those_of_the_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["--check"]) == 0, capsys.readouterr().err


def test_a_page_that_is_not_up_to_date_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    (tmp_path / "client").mkdir()
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["--check"]) == 1
    assert "docs/reference/commands.md" in capsys.readouterr().err
    assert main([]) == 0
    assert main(["--check"]) == 0


def test_every_command_and_every_public_name_has_its_place() -> None:
    pages = written()
    for path, examples in EXAMPLES.items():
        assert f" adaptlab {path}\n" in pages["commands.md"]
        assert all(example in pages["commands.md"] for example in examples)
    for name in set(adaptlab_client.__all__) - {"Client"}:
        assert re.search(rf"(### |\*\*`){name}\b", pages["client.md"]), name


def test_the_example_of_the_client_runs(
    address: Address,
    client: Client,
    sessions: sessionmaker[Session],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
    a_finished_job(client, sessions, tmp_path)
    for name, value in address.environment.items():
        monkeypatch.setenv(name, value)
    found = re.search(r"```python\n(from .*?)```", written()["client.md"], re.DOTALL)
    assert found is not None
    exec(compile(found[1], "client.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[0].isdecimal()
