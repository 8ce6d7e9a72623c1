"""A machine without a C compiler is said in the worker's log."""

from pathlib import Path

import pytest

from adaptlab.c_compiler import WHAT_IT_COSTS
from adaptlab_services.settings import Settings
from adaptlab_worker.loop import slot_settings
from adaptlab_worker.loop.slot_settings import slot_options


@pytest.mark.parametrize(
    ("compiler", "gpu", "said"),
    [(None, False, True), (None, True, False), ("/usr/bin/cc", False, False)],
)
def test_a_worker_that_trains_on_the_cpu_says_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    compiler: str | None,
    gpu: bool,
    said: bool,
) -> None:
    monkeypatch.setattr(slot_settings, "c_compiler", lambda: compiler)
    monkeypatch.setattr(slot_settings, "GPU_DEVICES", (tmp_path / "nvidiactl",))
    if gpu:
        (tmp_path / "nvidiactl").touch()
    settings = Settings(
        database_url="postgresql://unused@localhost/unused",
        broker_url="redis://localhost",
        data_dir=tmp_path,
        trainer_user="same",  # another one would be tried out in a process
    )
    slot_options(settings, 1, None)
    assert (WHAT_IT_COSTS in caplog.text) == said
