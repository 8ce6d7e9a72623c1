"""The discovery of plug-ins, at any depth.

All of them are found before anybody gets an answer.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

import pytest

from adaptlab.errors import InvalidSpec
from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.registry import Registry, by_name
from adaptlab.plugins.task import TASKS
from adaptlab.plugins.theory_check import THEORY_CHECKS

SOON = 0.2
LATE = 60
GATE = "a_gate_for_plug_ins"


class Gate(ModuleType):
    """What the plug-in of the tests waits at while it is imported."""

    def __init__(self) -> None:
        super().__init__(GATE)
        self.registry: Registry[object] = Registry("thing", "some_plug_ins")
        self.reached, self.open = Event(), Event()


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A package with a plug-in in a package of its own."""
    inner = tmp_path / "some_plug_ins" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner.parent, inner):
        (folder / "__init__.py").touch()
    (inner / "slow.py").write_text(
        f"import {GATE} as gate\n"
        "gate.reached.set()\n"
        f"gate.open.wait({LATE})\n"
        "gate.registry.register('slow')(object())\n"
    )
    made = Gate()
    monkeypatch.setitem(sys.modules, GATE, made)
    monkeypatch.syspath_prepend(tmp_path)
    yield made
    for name in [name for name in sys.modules if name.startswith("some_plug_ins")]:
        del sys.modules[name]


def test_a_plug_in_is_found_in_a_package_of_the_package(gate: Gate) -> None:
    gate.open.set()
    assert gate.registry.names() == ("slow",)


def test_a_second_thread_waits_until_all_are_found(gate: Gate) -> None:
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(gate.registry.names)
        assert gate.reached.wait(LATE)
        second = pool.submit(gate.registry.names)
        wait([second], timeout=SOON)  # time enough to answer too early
        gate.open.set()
        assert first.result(LATE) == second.result(LATE) == ("slow",)


@pytest.mark.parametrize("registry", [METHODS, TASKS, FAMILIES, THEORY_CHECKS])
@pytest.mark.parametrize(
    ("given", "detail"),
    [({}, "name is missing."), ({"name": None}, "name must be text.")],
)
def test_a_configuration_without_a_name_is_told_what_is_missing(
    registry: Registry[Any], given: dict[str, object], detail: str
) -> None:
    with pytest.raises(InvalidSpec) as refused:
        by_name(registry, given)
    assert [(one.pointer, one.detail) for one in refused.value.problems] == [("/name", detail)]
