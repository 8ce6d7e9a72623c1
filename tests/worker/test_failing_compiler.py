"""A trainer whose compiler fails does not begin.

So its worker takes no job.

That a slot claims only with a trainer that is ready is shown in `test_outages`.
"""

import shutil
from pathlib import Path

import pytest

from adaptlab.engine.kernels import compiled
from adaptlab.engine.kernels.compiled import forget_kernels
from adaptlab_worker.trainer import trainer


def test_a_trainer_without_its_kernels_exits_and_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if not Path("/proc/self/maps").exists():
        pytest.skip("another system than Linux")
    monkeypatch.setattr(compiled, "c_compiler", lambda: shutil.which("false"))
    monkeypatch.delenv(trainer.COMPILE, raising=False)
    with pytest.raises(SystemExit) as left:
        trainer.prepare_engine(lambda *_, **__: pytest.fail("nothing may run"))
    assert left.value.code == 1
    assert "could not be compiled by" in caplog.text
    assert "ADAPTLAB_COMPILE=off trains without kernels" in caplog.text
    forget_kernels()
