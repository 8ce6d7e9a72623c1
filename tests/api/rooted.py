"""Settings of a server that reads folders of models."""

from pathlib import Path

from adaptlab_services.settings import Settings


def with_a_root(database_url: str, broker_url: str, folder: Path, root: Path) -> Settings:
    """Settings with one model root, `models`, and their data in a new folder."""
    return Settings(
        database_url=database_url,
        broker_url=broker_url,
        data_dir=folder / "data",
        model_roots={"models": root},
    )
