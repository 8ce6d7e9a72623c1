"""A worker starts without the model roots that its trainers cannot read.

It does not start where no trainer could run.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from adaptlab_services.settings import Settings
from adaptlab_worker.confinement import trainer_user
from adaptlab_worker.confinement.confinement import TrainerLimits
from adaptlab_worker.errors import TorchMissing, TrainerUserBarred
from adaptlab_worker.loop import slot_settings
from adaptlab_worker.loop.slot_settings import slot_options

LIMITS = TrainerLimits(memory_bytes=2**30)


@pytest.fixture
def roots(tmp_path: Path) -> dict[str, Path]:
    """Three roots, of which `none` does not exist."""
    for name in ("closed", "lab"):
        (tmp_path / name).mkdir()
    return {name: tmp_path / name for name in ("closed", "lab", "none")}


def only_open(
    wanted: str, needed: Sequence[Path], scratch: Path, limits: TrainerLimits
) -> trainer_user.TrainerUser | None:
    """A user who cannot read folders named `closed`, or no user."""
    if wanted == "barred" or any(path.name == "closed" for path in needed):
        raise TrainerUserBarred("Trainers cannot run.")
    return None


def test_unreadable_roots_are_left_out(
    monkeypatch: pytest.MonkeyPatch, roots: dict[str, Path], tmp_path: Path
) -> None:
    monkeypatch.setattr(trainer_user, "trainer_user", only_open)
    user, readable = trainer_user.user_and_roots("same", roots, tmp_path, LIMITS)
    assert (user, readable) == (None, {"lab": roots["lab"]})


def test_a_worker_that_could_train_nothing_does_not_start(
    monkeypatch: pytest.MonkeyPatch, roots: dict[str, Path], tmp_path: Path
) -> None:
    monkeypatch.setattr(trainer_user, "trainer_user", only_open)
    for some in (roots, {}):
        with pytest.raises(TrainerUserBarred):
            trainer_user.user_and_roots("barred", some, tmp_path, LIMITS)


def test_a_worker_whose_python_has_no_torch_does_not_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(slot_settings.importlib.util, "find_spec", asked.append)
    settings = Settings(
        database_url="postgresql://unused@localhost/unused",
        broker_url="redis://localhost",
        data_dir=tmp_path,
    )
    with pytest.raises(TorchMissing, match=r"has no torch\. Install `adaptlab\[worker\]` there"):
        slot_options(settings, 1, None)
    assert asked == ["torch"]
