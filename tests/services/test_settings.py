"""Settings come from the environment and are checked at the start."""

from pathlib import Path

import pytest

from adaptlab.errors import BadSettings
from adaptlab_services.settings import Settings

URLS = {
    "ADAPTLAB_DATABASE_URL": "postgresql://lab:secret@localhost:5432/adaptlab",
    "ADAPTLAB_BROKER_URL": "redis://:secret@localhost:6379/0",
}


def settings(monkeypatch: pytest.MonkeyPatch, **more: str) -> Settings:
    for name, value in (URLS | {f"ADAPTLAB_{n.upper()}": v for n, v in more.items()}).items():
        monkeypatch.setenv(name, value)
    return Settings()  # pyright: ignore[reportCallIssue] - the environment has the rest


def test_an_address_is_made_one_for_psycopg_3(monkeypatch: pytest.MonkeyPatch) -> None:
    url = settings(monkeypatch).database_url
    assert url == "postgresql+psycopg://lab:secret@localhost:5432/adaptlab"


def test_queues_are_a_comma_separated_list(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings(monkeypatch).queues == ("cpu",)
    assert settings(monkeypatch, queues="gpu, cpu,").queues == ("gpu", "cpu")


def test_model_roots_are_folders_by_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings(monkeypatch).model_roots == {}
    assert settings(monkeypatch, model_roots="").model_roots == {}
    given = settings(monkeypatch, model_roots="models=/srv/models, hub=/cache/hub,").model_roots
    assert given == {"models": Path("/srv/models"), "hub": Path("/cache/hub")}


def test_no_secret_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "secret" not in repr(settings(monkeypatch))


@pytest.mark.parametrize(
    "wrong",
    [
        {"queues": ""},
        {"queues": "Not a queue"},
        {"lease_seconds": "0"},
        {"lease_seconds": "9", "heartbeat_seconds": "5"},
        {"database_url": "mysql://localhost/adaptlab"},
        {"max_body_bytes": "many"},
        {"model_roots": "/srv/models"},
        {"model_roots": "models="},
        {"model_roots": "models=srv/models"},
        {"model_roots": "Models/here=/srv/models"},
        {"model_roots": "models=/srv/models,models=/srv/others"},
        {"model_roots": "uploaded=/srv/models"},
    ],
)
def test_a_wrong_setting_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str]) -> None:
    with pytest.raises(BadSettings):
        settings(monkeypatch, **wrong)


def test_secrets_may_stand_in_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in URLS.items():
        (tmp_path / name).write_text(f"{value}\n")
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / name))
    found = Settings()  # pyright: ignore[reportCallIssue] - the files have the rest
    assert found.database_url == "postgresql+psycopg://lab:secret@localhost:5432/adaptlab"
    assert found.broker_url == URLS["ADAPTLAB_BROKER_URL"]


def test_a_secret_is_given_once_and_can_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ADAPTLAB_DATABASE_URL_FILE", str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="are both set") as twice:
        settings(monkeypatch)
    monkeypatch.delenv("ADAPTLAB_DATABASE_URL")
    with pytest.raises(ValueError, match="cannot be read") as unreadable:
        Settings()  # pyright: ignore[reportCallIssue]
    (tmp_path / "nothing").touch()
    with pytest.raises(ValueError, match="is empty"):
        Settings()  # pyright: ignore[reportCallIssue]
    assert "secret@" not in f"{twice.value} {unreadable.value}"


@pytest.mark.parametrize(
    "wrong",
    [{"lease_seconds": "0"}, {"heartbeat_seconds": "99"}, {"database_url": "mysql://x:secret@y"}],
)
def test_an_error_in_the_settings_tells_no_secret(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str]
) -> None:
    with pytest.raises(BadSettings) as error:
        settings(monkeypatch, **wrong)
    assert "secret@" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        (
            "checkpoint_days",
            "0",
            "ADAPTLAB_CHECKPOINT_DAYS is '0': input should be greater than 0. Set it to another "
            "value, or leave it unset for the default.",
        ),
        ("heartbeat_seconds", "99", "Set ADAPTLAB_HEARTBEAT_SECONDS to at most half of the lease."),
        ("database_url", "mysql://x:secret@y", "ADAPTLAB_DATABASE_URL: the database URL starts"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value_and_the_next_step(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    with pytest.raises(BadSettings) as error:
        settings(monkeypatch, **{name: value})
    assert told in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_a_setting_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in URLS:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BadSettings, match="ADAPTLAB_BROKER_URL is not set"):
        Settings()  # pyright: ignore[reportCallIssue]
