"""What is set from outside: environment variables that start with ADAPTLAB_."""

import os
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from adaptlab.errors import BadSettings
from adaptlab.specs.spec import Queue
from adaptlab_db.session import normalised_url
from adaptlab_db.stores.store import POSTGRES, StoreName
from adaptlab_services.secret_settings import SecretFiles

PREFIX = "ADAPTLAB_"
Alias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]

Hours = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Settings(BaseSettings):
    """The settings of one server process; what is secret is left out of its text and its errors.

    The URLs and the keys of S3 may stand in files instead, which ADAPTLAB_…_FILE name.

    Attributes:
        database_url: the Postgres database, as `postgresql://user:password@host:port/name`.
        broker_url: the Valkey or Redis that wakes workers up, as `redis://host:port/number`.
        data_dir: for the token file, scratch files and cached assets.
        queues: the queues that a worker claims from; a comma-separated list.
        lease_seconds: for how long a job stays with a worker that is not heard of.
        heartbeat_seconds: between two signs of life of a working worker.
        poll_seconds: between two looks for work of an idle worker that nobody wakes.
        save_seconds: between two saved states of a running training.
        memory_bytes: what one run of a worker may hold; None is most of what is free.
        scratch_free_bytes: what must be free on a worker's disk for it to take a job; None is a
            twentieth of the disk, at most 1 GiB.
        trainer_user: as whom trainers run: a user's name, `same` as the worker, or `auto`, which
            is a user id of their own where the worker is root.
        trainer_reads: folders that trainers can read besides the installation and model roots;
            separated by colons.
        trainer_writes: folders that trainers can write to besides their own; separated by colons.
        trainer_memory_bytes: beyond which a trainer gets no memory; None is all of the machine's.
        trainer_network: whether trainers may use the network; the engine needs none.
        trainer_environment: environment variables that trainers are given besides the usual ones.
        sweep_seconds: between two looks of beat for work that nobody rang for.
        reap_seconds: between two looks for leases that ended.
        reaper_arm_seconds: for how long a worker must have seen the database without a break before
            it takes leases back.
        ride_through_seconds: for how long a run goes on whose worker cannot reach the database.
        stall_seconds: for how long a run may say nothing, if its steps are quick.
        stall_steps: for how many of its own median steps a run may say nothing.
        max_body_bytes: the largest request body.
        max_upload_bytes: the most bytes that one upload may have.
        max_uploads: the most uploads that one owner may have at a time, complete or not.
        read_rate: requests a second that one person may make to look at things; `read_burst` is how
            many at once.
        write_rate: the same for requests that change something, with `write_burst`.
        lease_rate: requests a second that the workers with one token may make under their leases,
            with `lease_burst`.
        max_open_requests: the most requests of one person that are under way at a time, streams and
            waits among them.
        answer_seconds: within which an answer has to begin, else it is a 503; long polls and routes
            that move files have more.
        wrong_tokens_per_minute: tokens from one address that may be wrong before it has to wait.
        sign_ins_per_minute: forms to sign in that one address may send, good or not.
        max_model_parameters: the most parameters of a model that is trained or imported.
        max_batch_tokens: the most tokens in one batch of training of one replicate.
        max_attention_bytes: the most bytes that the attention maps of one job may take.
        max_check_tokens: the most tokens that one theory check may pass through models.
        max_study_jobs: the most jobs that one study may expand to.
        max_queued_jobs: the most jobs that one owner may have waiting or queued; None is any.
        max_running_jobs: the most jobs of one owner that run at a time; None is any.
        max_queue_hours: the most hours of attempts that one owner may have in a queue in thirty
            days, by queue; given as `gpu=100,cpu=1000`. Of a queue that is not named, any.
        max_stored_bytes: the most bytes that one owner may store; None is any. Admins can give a
            user other quotas than these two.
        model_roots: the folders below which jobs may name model folders, by alias; given as
            `alias=/path,alias2=/path2`.
        artifact_store: where new artifacts of at least `artifact_store_from_bytes` bytes go.
        artifact_folder: the folder of the store `directory`, the same for all processes.
        s3_bucket: the bucket of the store `s3`; credentials come from the settings that follow,
            or else from where Amazon's own programs look for them.
        attention_days: for how long the attention maps of a job that has ended are kept; None is
            for good. Jobs with the label `keep` lose nothing.
        checkpoint_days: the same for checkpoints, but for those of base models, which stay.
        scrub_days: within which every artifact is read once and held against its digest.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True
    )

    database_url: str = Field(repr=False)
    broker_url: str = Field(repr=False)
    data_dir: Path = Path(".adaptlab")
    queues: Annotated[tuple[Queue, ...], NoDecode, Field(min_length=1)] = ("cpu",)
    lease_seconds: float = Field(default=30, gt=0)
    heartbeat_seconds: float = Field(default=2, gt=0)
    poll_seconds: float = Field(default=10, gt=0)
    save_seconds: float = Field(default=30, gt=0)
    memory_bytes: int | None = Field(default=None, gt=0)
    scratch_free_bytes: int | None = Field(default=None, ge=0)
    trainer_user: str = Field(default="auto", min_length=1)
    trainer_memory_bytes: int | None = Field(default=None, ge=2**30)
    trainer_network: Literal["refused", "allowed"] = "refused"
    trainer_environment: Annotated[tuple[str, ...], NoDecode] = ()
    trainer_reads: Annotated[tuple[Path, ...], NoDecode] = ()
    trainer_writes: Annotated[tuple[Path, ...], NoDecode] = ()
    sweep_seconds: float = Field(default=10, gt=0)
    reap_seconds: float = Field(default=5, gt=0)
    reaper_arm_seconds: float = Field(default=60, ge=0)
    ride_through_seconds: float = Field(default=900, ge=0)
    stall_seconds: float = Field(default=600, gt=0)
    stall_steps: float = Field(default=20, gt=0)
    max_body_bytes: int = Field(default=2**20, gt=0)
    max_upload_bytes: int = Field(default=2**30, gt=0)
    max_uploads: int = Field(default=8, gt=0)
    read_rate: int = Field(default=100, gt=0)
    read_burst: int = Field(default=200, gt=0)
    write_rate: int = Field(default=20, gt=0)
    write_burst: int = Field(default=50, gt=0)
    lease_rate: int = Field(default=200, gt=0)
    lease_burst: int = Field(default=400, gt=0)
    max_open_requests: int = Field(default=100, gt=0)
    answer_seconds: float = Field(default=30, gt=0)
    wrong_tokens_per_minute: int = Field(default=5, gt=0)
    sign_ins_per_minute: int = Field(default=20, gt=0)
    max_model_parameters: int = Field(default=10**10, gt=0)
    max_batch_tokens: int = Field(default=2**20, gt=0)
    max_attention_bytes: int = Field(default=256 * 2**20, gt=0)
    max_check_tokens: int = Field(default=2**30, gt=0)
    max_study_jobs: int = Field(default=1000, gt=0)
    max_queued_jobs: int | None = Field(default=None, gt=0)
    max_running_jobs: int | None = Field(default=None, gt=0)
    max_queue_hours: Annotated[dict[Queue, Hours], NoDecode] = Field(
        default_factory=dict[str, float]
    )
    max_stored_bytes: int | None = Field(default=None, gt=0)
    model_roots: Annotated[dict[Alias, Path], NoDecode] = Field(default_factory=dict[str, Path])
    artifact_store: StoreName = POSTGRES
    artifact_store_from_bytes: int = Field(default=256 * 2**20, ge=0)
    artifact_folder: Path | None = None
    s3_bucket: str | None = None
    s3_prefix: str = ""
    s3_endpoint: str | None = None
    s3_region: str = "us-east-1"
    s3_access_key_id: str | None = Field(default=None, repr=False)
    s3_secret_access_key: str | None = Field(default=None, repr=False)
    attention_days: float | None = Field(default=None, gt=0)
    checkpoint_days: float | None = Field(default=None, gt=0)
    scrub_days: float = Field(default=30, gt=0)

    def __init__(self, **given: object) -> None:
        """Read the settings; `given` goes before the environment.

        Raises:
            BadSettings: one is missing or cannot be used.
        """
        try:
            super().__init__(**given)  # pyright: ignore[reportArgumentType] - checked by pydantic
        except ValidationError as error:
            raise BadSettings("\n".join(map(_told, error.errors()))) from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What is given in code, then the environment, then files that the environment names."""
        return init_settings, env_settings, SecretFiles(settings_cls, PREFIX)

    @field_validator("database_url")
    @classmethod
    def _normalise(cls, url: str) -> str:
        return normalised_url(url)

    @field_validator("queues", "trainer_environment", mode="before")
    @classmethod
    def _split(cls, names: object) -> object:
        if isinstance(names, str):
            return tuple(name.strip() for name in names.split(",") if name.strip())
        return names

    @field_validator("trainer_reads", "trainer_writes", mode="before")
    @classmethod
    def _folders(cls, folders: object) -> object:
        if isinstance(folders, str):
            return tuple(folder for folder in folders.split(os.pathsep) if folder)
        return folders

    @field_validator("trainer_reads", "trainer_writes")
    @classmethod
    def _folders_are_absolute(cls, folders: tuple[Path, ...]) -> tuple[Path, ...]:
        for folder in folders:
            if not folder.is_absolute():
                raise ValueError(f"{folder} is not an absolute path. Give /path or /path:/path2.")
        return folders

    @field_validator("max_queue_hours", mode="before")
    @classmethod
    def _hours(cls, hours: object) -> object:
        if not isinstance(hours, str):
            return hours
        pairs = [pair.strip().partition("=") for pair in hours.split(",") if pair.strip()]
        return {queue.strip(): most.strip() for queue, _, most in pairs}

    @field_validator("model_roots", mode="before")
    @classmethod
    def _roots(cls, roots: object) -> object:
        if not isinstance(roots, str):
            return roots
        pairs = [pair.strip().partition("=") for pair in roots.split(",") if pair.strip()]
        found = {alias.strip(): path.strip() for alias, _, path in pairs}
        if len(found) < len(pairs):
            raise ValueError(f"An alias occurs twice in the model roots {roots!r}.")
        return found

    @field_validator("model_roots")
    @classmethod
    def _roots_are_absolute(cls, roots: dict[str, Path]) -> dict[str, Path]:
        for alias, path in roots.items():
            if not path.is_absolute():
                raise ValueError(
                    f"The model root {alias}={path} is not of the form alias=/absolute/path."
                )
        return roots

    @model_validator(mode="after")
    def _heartbeats_fit(self) -> Self:
        if 2 * self.heartbeat_seconds > self.lease_seconds:
            raise ValueError(
                f"A lease of {self.lease_seconds} s ends before the second heartbeat at "
                f"intervals of {self.heartbeat_seconds} s. Set ADAPTLAB_HEARTBEAT_SECONDS to "
                "at most half of the lease."
            )
        return self

    @model_validator(mode="after")
    def _store_is_set_up(self) -> Self:
        if self.artifact_store == "directory" and self.artifact_folder is None:
            raise ValueError("ADAPTLAB_ARTIFACT_STORE is directory: set ADAPTLAB_ARTIFACT_FOLDER.")
        if self.artifact_store == "s3" and self.s3_bucket is None:
            raise ValueError("ADAPTLAB_ARTIFACT_STORE is s3: set ADAPTLAB_S3_BUCKET.")
        return self


def _told(error: ErrorDetails) -> str:
    """One line about a setting: its variable, its value unless that is secret, what is wrong."""
    wrong = error["msg"].removeprefix("Value error, ").rstrip(".")
    if not error["loc"]:  # of several settings, which the message names
        return f"{wrong}."
    name = str(error["loc"][0])
    variable = f"{PREFIX}{name.upper()}"
    if error["type"] == "missing":
        return f"{variable} is not set. See docs/reference/settings.md."
    field = Settings.model_fields[name]
    value = f" is {error['input']!r}" if field.repr else ""
    default = "" if field.is_required() else ", or leave it unset for the default"
    return f"{variable}{value}: {wrong[:1].lower()}{wrong[1:]}. Set it to another value{default}."
