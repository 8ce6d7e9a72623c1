"""The models of these tests are made here, offline, and are tiny."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

# Read when `transformers` is imported, which the test modules do after this.
os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: for models this small, ten times as fast as two."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def kernels() -> Iterator[None]:
    """Compute with compiled kernels; skips where they cannot be made."""
    from adaptlab.c_compiler import c_compiler
    from adaptlab.engine.kernels import compiled

    if c_compiler() is None or not Path("/proc/self/maps").exists():
        pytest.skip("no C compiler, or another system than Linux")
    assert compiled.compile_kernels()
    yield
    compiled.forget_kernels()


@pytest.fixture
def products(kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute products with compiled kernels, however slow they are here."""
    from adaptlab.engine.kernels import compiled

    monkeypatch.setattr(compiled.Kernels, "has_products", True)
