"""Slots and workers without a GPU divide the machine's memory."""

from pathlib import Path

import pytest

from adaptlab_services.settings import Settings
from adaptlab_worker.loop import slot_settings
from adaptlab_worker.loop.slot_settings import slot_options

MACHINE = 10 * 2**30


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Settings:
    monkeypatch.setattr(slot_settings, "machine_memory", lambda: MACHINE)
    monkeypatch.setattr(slot_settings, "GPU_DEVICES", (tmp_path / "nvidiactl",))
    return Settings(
        database_url="postgresql://unused@localhost/unused",
        broker_url="redis://localhost",
        data_dir=tmp_path,
        trainer_user="same",  # another one would be tried out in a process
    )


@pytest.mark.parametrize(
    ("slots", "workers", "expected"),
    [(1, 1, None), (2, 1, 4 * 2**30), (4, 1, 2 * 2**30), (1, 2, 4 * 2**30), (2, 2, 2 * 2**30)],
)
def test_runs_of_all_slots_and_workers_divide_most_of_the_memory(
    settings: Settings, slots: int, workers: int, expected: int | None
) -> None:
    beside = settings.model_copy(update={"workers_per_machine": workers})
    assert slot_options(beside, slots, None).memory_bytes == expected


def test_what_an_operator_sets_counts(settings: Settings) -> None:
    given = settings.model_copy(update={"memory_bytes": 2**33})
    assert slot_options(given, 2, None).memory_bytes == 2**33


def test_memory_of_a_gpu_is_not_divided(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "nvidiactl").touch()
    assert slot_options(settings, 2, None).memory_bytes is None
