"""What is set from outside: environment variables that start with ADAPTLAB_."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from adaptlab.spec import Queue
from adaptlab_db.session import normalised_url


class Settings(BaseSettings):
    """The settings of one server process; URLs hold passwords and are left out of its text.

    Attributes:
        database_url: the Postgres database, as `postgresql://user:password@host:port/name`.
        broker_url: the Valkey or Redis that wakes workers up, as `redis://host:port/number`.
        data_dir: for the token file, scratch files and cached assets.
        queues: the queues that a worker claims from; a comma-separated list.
        lease_seconds: for how long a job stays with a worker that is not heard of.
        heartbeat_seconds: between two signs of life of a working worker.
        poll_seconds: between two looks for work of an idle worker that nobody wakes.
        save_seconds: between two saved states of a running training.
        reap_seconds: between two looks for leases that ended.
        max_body_bytes: the largest request body.
    """

    model_config = SettingsConfigDict(env_prefix="ADAPTLAB_", frozen=True, extra="ignore")

    database_url: str = Field(repr=False)
    broker_url: str = Field(repr=False)
    data_dir: Path = Path(".adaptlab")
    queues: Annotated[tuple[Queue, ...], NoDecode, Field(min_length=1)] = ("cpu",)
    lease_seconds: float = Field(default=30, gt=0)
    heartbeat_seconds: float = Field(default=2, gt=0)
    poll_seconds: float = Field(default=10, gt=0)
    save_seconds: float = Field(default=30, gt=0)
    reap_seconds: float = Field(default=5, gt=0)
    max_body_bytes: int = Field(default=2**20, gt=0)

    @field_validator("database_url")
    @classmethod
    def _normalise(cls, url: str) -> str:
        return normalised_url(url)

    @field_validator("queues", mode="before")
    @classmethod
    def _split(cls, queues: object) -> object:
        if isinstance(queues, str):
            return tuple(name.strip() for name in queues.split(",") if name.strip())
        return queues

    @model_validator(mode="after")
    def _heartbeats_fit(self) -> Self:
        if 2 * self.heartbeat_seconds > self.lease_seconds:
            raise ValueError(
                f"A lease of {self.lease_seconds} s ends before a second heartbeat after "
                f"{self.heartbeat_seconds} s; set ADAPTLAB_HEARTBEAT_SECONDS to at most half."
            )
        return self
