"""Tests of a GPU, skipped where torch finds no CUDA device."""

import os
from collections.abc import Iterator

import pytest
import torch

# Read when `transformers` is imported, which the test modules do after this.
os.environ["HF_HUB_OFFLINE"] = "1"

WITHOUT = pytest.mark.skip(reason="torch finds no CUDA device here")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(WITHOUT)


@pytest.fixture(autouse=True)
def without_graphs() -> Iterator[None]:
    """Compute steps plainly, unless a test asks for graphs."""
    # Here, because what is imported with this file escapes the checks of shapes.
    from adaptlab.engine.training.step_graph import use_graphs

    use_graphs(use=False)
    yield
    use_graphs(use=False)
