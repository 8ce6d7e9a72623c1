"""Byte code of torch, which trainers of other users read."""

import os
import stat
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from adaptlab_worker.confinement import installation
from adaptlab_worker.confinement.installation import keep_compiled_python


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in the place of torch, whose import is that of the engine."""
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("")
    spec = ModuleSpec("torch", None, origin=str(package / "__init__.py"))
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda _: spec)
    monkeypatch.setattr(installation, "IMPORT_OF_ENGINE", "import torch")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setattr(installation.sys, "dont_write_bytecode", False)
    return package


def test_byte_code_can_be_read_by_all_whatever_the_umask_of_the_worker(torch: Path) -> None:
    before = os.umask(0o077)  # as under `adaptlab up` and the units
    try:
        keep_compiled_python()
    finally:
        os.umask(before)
    (compiled,) = (torch / "__pycache__").iterdir()
    assert stat.S_IMODE(compiled.stat().st_mode) & 0o044 == 0o044
    assert stat.S_IMODE(compiled.parent.stat().st_mode) & 0o055 == 0o055


def test_a_folder_of_byte_code_that_is_closed_does_not_stop_the_worker(
    torch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where root compiled it with another umask."""

    def closed(*_: object) -> bool:
        raise PermissionError

    monkeypatch.setattr(Path, "stat", closed)
    monkeypatch.setattr(installation.os, "access", lambda *_: False)
    keep_compiled_python()
