"""The reference pages say what the code says, and their examples run."""

import re
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Address
from tests.client.finished import a_finished_job
from tests.making import a_base_model

import adaptlab_client
from adaptlab.plugins.metric import METRICS
from adaptlab_client import Client
from adaptlab_client.cli import extensions
from adaptlab_client.cli.examples import EXAMPLES
from adaptlab_client.reference.__main__ import main
from adaptlab_client.reference.pages import written

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "client.md"


def test_the_pages_are_written_into_a_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "docs" / "reference"
    folder.mkdir(parents=True)
    (tmp_path / "client").mkdir()
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    main()
    assert {path.name: path.read_text() for path in folder.iterdir()} == written()


def test_a_command_whose_extra_is_missing_has_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints([EntryPoint("up", "adaptlab_lost.cli:up", extensions.GROUP)])
    monkeypatch.setattr(extensions, "entry_points", lambda group: points.select(group=group))
    assert "### adaptlab up\n\n(from adaptlab_lost.cli)" in written()["commands.md"]


def test_every_command_and_every_public_name_has_its_place() -> None:
    pages = written()
    assert all(f"## `{name}`" in pages["metrics.md"] for name in METRICS.names())
    for path, examples in EXAMPLES.items():
        assert f" adaptlab {path}\n" in pages["commands.md"]
        assert all(example in pages["commands.md"] for example in examples)
    for name in set(adaptlab_client.__all__) - {"Client"}:
        assert re.search(rf"(### |\*\*`){name}\b", pages["client-calls.md"]), name


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
    found = re.search(r"```python\n(from .*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    exec(compile(found[1], "client.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[0].isdecimal()
