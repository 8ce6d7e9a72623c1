"""What a trainer says of the machine's GPU."""

from pathlib import Path

import pytest
import torch

from adaptlab_worker.trainer import trainer


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of `/dev`."""
    monkeypatch.setattr(trainer, "CARDS", f"{tmp_path}/nvidia{{}}")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return tmp_path


def said(caplog: pytest.LogCaptureFixture) -> str:
    with caplog.at_level("INFO"):
        trainer.say_where_runs_train()
    return caplog.text


def test_a_card_that_torch_cannot_use_is_warned_of(
    cards: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("Error 304: OS call failed\nand more")

    (cards / "nvidia3").touch()
    monkeypatch.setattr(torch.cuda, "init", fail)
    text = said(caplog)
    assert "WARNING" in text
    assert "train on the CPU: Error 304: OS call failed" in text
    assert "and more" not in text


def test_a_build_of_torch_without_cuda_is_named(
    cards: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise AssertionError("Torch not compiled with CUDA enabled")

    (cards / "nvidia0").touch()
    monkeypatch.setattr(torch.cuda, "init", fail)
    assert "Torch not compiled with CUDA enabled" in said(caplog)


def test_a_machine_without_cards_is_nothing_to_warn_of(
    cards: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert said(caplog) == ""


@pytest.mark.parametrize("fault", [None, "OSError: Could not find any NVRTC library"])
def test_the_card_in_use_is_logged(
    fault: str | None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    asked: list[torch.device] = []
    monkeypatch.setattr(
        "adaptlab.engine.kernels.fused_dropout.dropout_fault",
        lambda device: asked.append(device) or fault,
    )
    text = said(caplog)
    assert "runs train on NVIDIA H100" in text
    assert asked == [torch.device("cuda", 1)]
    assert ("WARNING" in text) is (fault is not None)
    assert fault is None or f"cannot be used: {fault}" in text
