"""The models of these tests are made here, offline, and are tiny."""

import os
from collections.abc import Iterator

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
