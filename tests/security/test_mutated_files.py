"""A few hundred mutated files; `mutate_safetensors` makes more."""

from pathlib import Path

import pytest
import torch
from tests.security import mutate_safetensors


@pytest.mark.long("many bad inputs")
def test_mutated_files_are_refused_or_read_as_they_are(tmp_path: Path) -> None:
    found = mutate_safetensors.run(510, 20261122, tmp_path)
    assert found.outcomes.total() == 510
    for door in ("checkpoint", "model folder", "training state"):
        assert found.outcomes[f"{door}: refused"] > 100
        assert found.outcomes[f"{door}: read"] > 0


def test_numbers_that_nobody_looks_at_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "isfinite", lambda _: torch.tensor([True]))
    with pytest.raises(AssertionError):
        mutate_safetensors.run(300, 1, tmp_path)
